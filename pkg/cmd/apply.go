package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// maxPlanFile bounds what is read as a plan, in bytes.
const maxPlanFile = 64 << 20

const applyLong = `Carry out exactly the plan that was saved with --plan-out.

A plan is stale, and refused, when the cluster, or the CRD's UID, generation,
storage version or stored versions are no longer those it was made for. Every
check is made again before anything is written.`

const applyExample = `  # Plan, have it reviewed, carry it out
  kubectl crdver promote v1 crontabs.example.com --plan-out plan.yaml
  kubectl crdver apply -f plan.yaml`

type applyOptions struct {
	flags    changeFlags
	filename string
}

func newApplyCommand(f *Factory) *cobra.Command {
	var o applyOptions
	command := &cobra.Command{
		Use:               "apply -f FILE",
		Short:             "Carry out a saved plan",
		Long:              applyLong,
		Example:           applyExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(command *cobra.Command, _ []string) error { return o.run(f, command) },
	}
	command.Flags().StringVarP(&o.filename, "filename", "f", "", "Plan to carry out; - is standard input, which needs --yes")
	if err := command.MarkFlagRequired("filename"); err != nil {
		// The flag was added on the line above.
		panic(err)
	}
	o.flags.add(command)
	o.flags.etcd.addEvidence(command)
	o.flags.addReport(command)
	if err := command.Flags().MarkHidden("plan-out"); err != nil {
		panic(err)
	}
	return command
}

func (o *applyOptions) run(f *Factory, command *cobra.Command) error {
	if err := o.flags.validate(command); err != nil {
		return err
	}
	if o.flags.planOut != "" {
		return UsageErrorf(command, "--plan-out makes no sense with apply: the plan is already saved")
	}
	plans, err := readPlans(f.In, o.filename)
	if err != nil {
		return err
	}
	c, err := f.newChange(o.flags, command)
	if err != nil {
		return err
	}
	for i, saved := range plans {
		again, err := c.recheck(command.Context(), saved)
		if err != nil {
			return c.notApplied(command.Context(), plans, i, err)
		}
		plans[i] = again
	}
	return c.carryOut(command.Context(), plans)
}

// blockStale is the blocker of a saved plan that may not be carried out any more.
const blockStale = "stale"

// notApplied tells a program that reads the document why none of the saved plans
// is carried out: because of one of them.
func (c *change) notApplied(ctx context.Context, plans []v1alpha1.Plan, at int, why error) error {
	if c.flags.output == "" || ExitCode(why) != ExitRefused {
		return why
	}
	refused := &plans[at]
	refused.Applyable = false
	refused.Blockers = append(refused.Blockers, v1alpha1.Blocker{
		ID: blockStale, Message: why.Error(), Resolve: c.resume(refused.Intent, refused.Target.CRD.Name),
	})
	if c.flags.dryRun != "none" {
		return errors.Join(why, c.printDocument(planDocument(plans)))
	}
	return c.notRun(ctx, plans, why)
}

// documents counts the YAML documents that are not empty.
func documents(data []byte) int {
	n := 0
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := reader.Read()
		if len(bytes.TrimSpace(document)) > 0 {
			n++
		}
		if err != nil {
			return n // The end: nothing else can go wrong in memory.
		}
	}
}

// readPlans reads a Plan or a PlanList.
func readPlans(stdin io.Reader, filename string) ([]v1alpha1.Plan, error) {
	in := stdin
	if filename != "-" {
		file, err := os.Open(filename)
		if err != nil {
			return nil, fmt.Errorf("reading the plan: %w", err)
		}
		defer file.Close() //nolint:errcheck // only read
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPlanFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the plan %s: %w", filename, err)
	}
	if len(data) > maxPlanFile {
		return nil, fmt.Errorf("reading the plan %s: it is larger than %d bytes", filename, maxPlanFile)
	}
	if documents(data) > 1 {
		return nil, fmt.Errorf("reading the plan %s: it holds several documents, and only one would be carried out; "+
			"apply each on its own, or save the plans of several CRDs with one --plan-out", filename)
	}
	var list v1alpha1.PlanList
	if err := yaml.Unmarshal(data, &list.TypeMeta); err != nil {
		return nil, fmt.Errorf("reading the plan %s: %w", filename, err)
	}
	if list.APIVersion != v1alpha1.GroupVersion().String() {
		return nil, fmt.Errorf("reading the plan %s: apiVersion is %q, not %q; save it with --plan-out",
			filename, list.APIVersion, v1alpha1.GroupVersion())
	}
	switch list.Kind {
	case v1alpha1.KindPlan:
		list.Items = make([]v1alpha1.Plan, 1)
		err = yaml.UnmarshalStrict(data, &list.Items[0])
	case v1alpha1.KindPlanList:
		err = yaml.UnmarshalStrict(data, &list)
	default:
		err = fmt.Errorf("kind is %q, not %q", list.Kind, v1alpha1.KindPlan)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the plan %s: %w", filename, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("reading the plan %s: it holds no plan", filename)
	}
	for _, p := range list.Items {
		if p.Target.CRD.Name == "" || p.Target.CRD.UID == "" || p.Intent.Verb == "" {
			return nil, fmt.Errorf("reading the plan %s: it is not whole: it does not say what it is for; save it again with --plan-out", filename)
		}
	}
	return list.Items, nil
}

// recheck makes the plan again and refuses the saved one where it is stale, or
// where its steps are not those that this tool would take: a plan is data from
// a file, and not everything that a file says may be done to a CRD.
func (c *change) recheck(ctx context.Context, saved v1alpha1.Plan) (v1alpha1.Plan, error) {
	name := saved.Target.CRD.Name
	if saved.Intent.Retry != nil {
		return saved, Refused(fmt.Errorf("the plan for %s sends objects again that it does not name: use kubectl crdver migrate --retry-from", name))
	}
	identity, err := c.cluster.Identity(ctx)
	if err != nil {
		return saved, fmt.Errorf("identifying the cluster: %w", err)
	}
	live, err := c.cluster.CRDs().Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return saved, Refused(fmt.Errorf("the plan is stale: the CRD %s is gone", name))
	}
	if err != nil {
		return saved, denied(err)
	}
	one := crd.CRD{CustomResourceDefinition: live}
	state := lifecycle.New(one, lifecycle.Observations{})
	if why := plan.Stale(saved.Target, v1alpha1.Target{Cluster: identity, CRD: plan.Identity(state)}); why != "" {
		return saved, Refused(fmt.Errorf("the plan for %s is stale: %s; plan again", name, why))
	}
	intent := saved.Intent
	if members := c.flags.etcd.members(); len(members) > 0 {
		// The etcd that is read is the one that was named here; a plan that has one
		// read needs it, and one that does not gains by it.
		intent.EtcdEndpoints = members
	}
	again, err := c.planFor(ctx, one, intent, false)
	if err != nil {
		return saved, err
	}
	if why := plan.Differs(saved.Steps, again.Steps); why != "" {
		return saved, Refused(fmt.Errorf("the plan for %s is not the one that would be made now: %s; plan again", name, why))
	}
	if again.Applyable && !saved.Applyable {
		return saved, Refused(errors.New("the saved plan was blocked; plan again, nothing stands in the way by now"))
	}
	// What is carried out is the saved plan; what was found out about it is as of now.
	return again, nil
}
