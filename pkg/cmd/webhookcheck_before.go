package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion/doctor"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// The checks that are made before the webhook is called. What fails in them has
// the name of the rule of "validate" instead.
const (
	checkConfiguration = "configuration"
	checkService       = "service"
	checkConverts      = "server-converts"
)

// webhookCheckNames returns what --skip takes.
func webhookCheckNames() []string {
	names := []string{checkConfiguration, checkService, checkConverts}
	for _, rule := range validate.Rules() {
		names = append(names, rule.ID)
	}
	return append(names, doctor.Names()...)
}

// before returns what can be told without calling the webhook: what the rules of
// "validate" find about the conversion, in the stages that they belong to.
func before(ctx context.Context, one patient, w way, now time.Time) []v1alpha1.WebhookCheck {
	subject := validate.NewSubject(ctx, one.state, now)
	subject.Document, _ = one.state.CRD.Origin.Values() // It was decoded before.
	byStage := map[v1alpha1.CheckStage][]v1alpha1.WebhookCheck{}
	for _, found := range validate.Run(validate.Rules(), subject) {
		stage := stageOf(found.Rule)
		elsewhere := w.given && stage != v1alpha1.CheckStageConfiguration
		if found.Suppressed != nil || found.Severity == v1alpha1.SeverityInfo || elsewhere || !strings.HasPrefix(found.Path, "spec.conversion") {
			continue
		}
		result := v1alpha1.CheckWarning
		if found.Severity == v1alpha1.SeverityError {
			result = v1alpha1.CheckFailed
		}
		rule, _ := validate.Find(validate.Rules(), found.Rule)
		byStage[stage] = append(byStage[stage], v1alpha1.WebhookCheck{
			Stage: stage, Name: found.Rule, Result: result, Message: found.Message, Protocol: rule.Why,
		})
	}
	for _, good := range []v1alpha1.WebhookCheck{configurationCheck(), serviceCheck(one, w), convertsCheck(one, w)} {
		if good.Name != "" && len(byStage[good.Stage]) == 0 {
			byStage[good.Stage] = append(byStage[good.Stage], good)
		}
	}
	return slices.Concat(byStage[v1alpha1.CheckStageConfiguration], byStage[v1alpha1.CheckStageService],
		byStage[v1alpha1.CheckStageReachability], byStage[v1alpha1.CheckStageTLS])
}

// stageOf returns the stage that a rule belongs to.
func stageOf(rule string) v1alpha1.CheckStage {
	switch {
	case strings.HasPrefix(rule, "conversion-service-"), rule == "conversion-namespace-terminating":
		return v1alpha1.CheckStageService
	case strings.HasPrefix(rule, "ca-bundle-"):
		return v1alpha1.CheckStageTLS
	case rule == "conversion-fails":
		return v1alpha1.CheckStageReachability
	default:
		return v1alpha1.CheckStageConfiguration
	}
}

func configurationCheck() v1alpha1.WebhookCheck {
	return v1alpha1.WebhookCheck{
		Stage: v1alpha1.CheckStageConfiguration, Name: checkConfiguration, Result: v1alpha1.CheckOK,
		Message: `no rule of "validate" has anything against spec.conversion`, Protocol: "the API server takes the CRD, and what it says is there",
	}
}

// serviceCheck says what there is of the service, if no rule has anything against it.
func serviceCheck(one patient, w way) v1alpha1.WebhookCheck {
	config := clientConfigOf(one.state.CRD)
	check := v1alpha1.WebhookCheck{
		Stage: v1alpha1.CheckStageService, Name: checkService, Result: v1alpha1.CheckSkipped,
		Protocol: "the service is there, has the port, and endpoints that are ready",
	}
	observed := one.state.Observations.Converter
	switch {
	case w.given:
		check.Message = "--url is called instead of what the CRD names"
	case config == nil || config.Service == nil:
		check.Message = "the webhook is at a URL"
	case one.client == nil || observed == nil:
		check.Message = "a manifest tells nothing about services"
	case observed.Error != "":
		check.Message = "it cannot be read: " + observed.Error
	default:
		check.Result = v1alpha1.CheckOK
		check.Message = fmt.Sprintf("%s/%s has port %d", config.Service.Namespace, config.Service.Name, servicePort(config.Service))
		if observed.Endpoints != nil {
			check.Message += " and " + english.Plural(*observed.Endpoints, "ready endpoint")
		}
	}
	return check
}

// convertsCheck says that the API server itself converted objects through the
// webhook, which proves the way to it and its certificate; the rule
// conversion-fails says when it could not.
func convertsCheck(one patient, w way) v1alpha1.WebhookCheck {
	objects := one.state.Observations.Objects
	if one.client == nil || w.given {
		return v1alpha1.WebhookCheck{}
	}
	check := v1alpha1.WebhookCheck{
		Stage: v1alpha1.CheckStageReachability, Name: checkConverts, Result: v1alpha1.CheckOK,
		Protocol: "the API server calls the webhook itself whenever it reads an object at another version than the one that it is stored at",
	}
	served := one.state.CRD.Served()
	if objects == nil || *objects == 0 || len(served) < 2 {
		check.Result, check.Message = v1alpha1.CheckSkipped, "there is no object that the API server could convert"
		return check
	}
	check.Message = "the API server reads an object at " + strings.Join(served, ", ")
	return check
}
