package cmd

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

const (
	// jobRetries is how often a pod is tried again: a run continues where the one
	// before it stopped.
	jobRetries = 3
	// jobKept is how long a finished Job stays, for somebody to read its log.
	jobKept = 24 * time.Hour
	// maxJobName leaves room for what names of Jobs and pods get at their end.
	maxJobName = 40
	// nobody is the user of the pods.
	nobody = 65532
	// indexVariable is the environment variable that an Indexed Job gives its pods.
	indexVariable = "JOB_COMPLETION_INDEX"
	// scratch is the only directory of the pods that can be written to.
	scratch = "/tmp"
)

// migrationJob is a Job that runs migrate in the cluster, and its account.
type migrationJob struct {
	jobFlags

	args     []string
	crds     []string
	rules    []plan.Rule
	webhooks []apiextensionsv1.ServiceReference
}

// add adds a CRD and the permissions that its migration needs.
func (j *migrationJob) add(one crd.CRD, rules []plan.Rule) {
	j.crds = append(j.crds, one.Name)
	for _, rule := range rules {
		j.rules = appendNew(j.rules, rule)
	}
	if service := plan.WebhookService(one.CustomResourceDefinition); service != nil {
		j.webhooks = append(j.webhooks, *service)
	}
}

// name is that of all objects: of the resource, with what tells two groups apart.
func (j *migrationJob) name() string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(strings.Join(j.crds, ","))) // It never fails.
	plural, _, _ := strings.Cut(j.crds[0], ".")
	name := "crdver-migrate-" + plural
	if len(name) > maxJobName {
		name = strings.TrimRight(name[:maxJobName], "-")
	}
	return fmt.Sprintf("%s-%08x", name, hash.Sum32())
}

// usage says what to do with the manifest.
func (j *migrationJob) usage() []string {
	name := j.name()
	lines := []string{
		"Migrates " + strings.Join(j.crds, ", ") + " to the storage version, in the cluster.",
		"",
		"  kubectl apply -f FILE",
		j.waitForEnd(name),
		j.isComplete(name),
		"",
		"The first wait is over when the Job is Complete or Failed, the conditions of a Job that",
		"come before FailureTarget in the alphabet; the second succeeds if it is Complete. What a",
		"Job that Failed has to say:",
		"",
		fmt.Sprintf("  kubectl logs -n %s -l %s=%s --prefix --tail=-1", j.namespace, batchv1.JobNameLabel, name),
	}
	if j.announces() {
		lines = append(lines,
			"",
			"Where there is nothing to trim, the proof is noted in the CRD, which the account may",
			"patch for that. So the run is announced on the CRD, too, and a pod that takes the place",
			"of one that was killed goes on only after two minutes without a sign of it (--take-over).",
		)
	}
	if j.shards > 1 {
		lines = append(lines,
			"",
			fmt.Sprintf("The %d pods rewrite a part of the namespaces each, and trim nothing. Then the second", j.shards),
			"Job, which is suspended, rewrites what is left, verifies every object and trims",
			"status.storedVersions; it is safe to start at any time, because it believes nobody:",
			"",
			fmt.Sprintf("  kubectl patch job -n %s %s-finish --type=merge -p '{\"spec\":{\"suspend\":false}}'", j.namespace, name),
			j.waitForEnd(name+"-finish"),
			j.isComplete(name+"-finish"),
		)
	}
	return append(lines, "", "Afterwards: kubectl delete -f FILE")
}

// waitForEnd is the command that waits for the end of a Job, whichever it is. The
// conditions of one are Complete and Failed, before these SuccessCriteriaMet and
// FailureTarget, and Suspended; kubectl wait takes one condition, or all of several,
// and a JSONPath that leads to one value. There, "<=" cannot be written: the command
// takes what comes after a single "=" for the value.
func (j *migrationJob) waitForEnd(name string) string {
	return fmt.Sprintf(`  kubectl wait --for=jsonpath='{.status.conditions[?(@.type<"%s")].status}'=True --timeout=-1s -n %s job/%s`,
		batchv1.JobFailureTarget, j.namespace, name)
}

// isComplete is the command that tells whether a Job that came to its end did so well.
func (j *migrationJob) isComplete(name string) string {
	return fmt.Sprintf("  kubectl wait --for=condition=complete --timeout=0 -n %s job/%s", j.namespace, name)
}

// announces reports whether the runs of the Job say on a CRD that they are at work:
// the account may write the annotation, because a proof is to be noted beside it.
func (j *migrationJob) announces() bool {
	return slices.ContainsFunc(j.rules, func(rule plan.Rule) bool {
		return rule.Verb == "patch" && rule.Group == apiextensionsv1.GroupName && rule.Resource == "customresourcedefinitions" && rule.Subresource == ""
	})
}

// objects returns everything, in the order in which it has to be created.
func (j *migrationJob) objects() []runtime.Object {
	objects := []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: j.meta("", true)},
		&rbacv1.ClusterRole{
			TypeMeta: rbacType("ClusterRole"), ObjectMeta: j.meta("", false), Rules: policyRules(j.rules),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: j.meta("", false),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: j.name()},
			Subjects: j.subjects(),
		},
	}
	objects = append(objects, j.webhookRights()...)
	if j.shards > 1 {
		return append(objects, j.sharded(), j.whole("-finish", true))
	}
	return append(objects, j.whole("", false))
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func (j *migrationJob) meta(suffix string, namespaced bool) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: j.name() + suffix, Labels: map[string]string{
		"app.kubernetes.io/name": product, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
	}}
	if namespaced {
		meta.Namespace = j.namespace
	}
	return meta
}

func (j *migrationJob) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: j.name(), Namespace: j.namespace}}
}

// webhookRights lets the account look at the Services of conversion webhooks,
// each in its own namespace.
func (j *migrationJob) webhookRights() []runtime.Object {
	var objects []runtime.Object
	for i, service := range j.webhooks {
		if slices.Index(j.webhooks, service) != i {
			continue
		}
		meta := j.meta(fmt.Sprintf("-webhook-%d", i), false)
		meta.Namespace = service.Namespace
		objects = append(objects,
			&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{service.Namespace}, Verbs: []string{"get"}},
				{APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{service.Name}, Verbs: []string{"get"}},
				{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list"}},
			}},
			&rbacv1.RoleBinding{
				TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta,
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
				Subjects: j.subjects(),
			})
	}
	return objects
}

// policyRules groups permissions that differ in the verb only.
func policyRules(rules []plan.Rule) []rbacv1.PolicyRule {
	var policies []rbacv1.PolicyRule
	var keys []plan.Rule
	for _, rule := range rules {
		key := rule
		key.Verb = ""
		i := slices.Index(keys, key)
		if i < 0 {
			i, keys = len(keys), append(keys, key)
			policy := rbacv1.PolicyRule{APIGroups: []string{rule.Group}, Resources: []string{rule.Resource}}
			if rule.Subresource != "" {
				policy.Resources[0] += "/" + rule.Subresource
			}
			if rule.Name != "" {
				policy.ResourceNames = []string{rule.Name}
			}
			policies = append(policies, policy)
		}
		policies[i].Verbs = append(policies[i].Verbs, rule.Verb)
	}
	return policies
}

// whole is a Job of one pod that migrates everything, verifies and trims. A pod that
// is killed leaves the CRD held, where its run is announced there, and the one after it
// is a process elsewhere, which cannot see that it is gone: it has to wait until the
// hold is not renewed any more. One that somebody else renews ends the Job.
func (j *migrationJob) whole(suffix string, suspended bool) *batchv1.Job {
	args := slices.Clone(j.args)
	if j.announces() {
		args = append(args, "--take-over")
	}
	job := j.job(suffix, args)
	job.Spec.BackoffLimit = new(int32(jobRetries))
	if suspended {
		job.Spec.Suspend = new(true)
	}
	job.Spec.PodFailurePolicy = failurePolicy(batchv1.PodFailurePolicyActionFailJob)
	return job
}

// sharded is a Job of a pod for each part of the namespaces.
func (j *migrationJob) sharded() *batchv1.Job {
	job := j.job("", append(slices.Clone(j.args), "--shard", fmt.Sprintf("$(%s)/%d", indexVariable, j.shards)))
	n := int32(j.shards) //nolint:gosec // At most maxJobShards.
	job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = &n, &n
	job.Spec.BackoffLimitPerIndex = new(int32(jobRetries))
	job.Spec.PodFailurePolicy = failurePolicy(batchv1.PodFailurePolicyActionFailIndex)
	return job
}

// failurePolicy does not run again what was refused, which nothing but somebody
// who reads the message can change, and does not count pods that had to go.
func failurePolicy(refused batchv1.PodFailurePolicyAction) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}},
		{Action: refused, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{ExitRefused},
		}},
	}}
}

func (j *migrationJob) job(suffix string, args []string) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: j.meta(suffix, true),
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: new(int32(jobKept / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: j.meta("", false).Labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: j.name(),
					RestartPolicy:      corev1.RestartPolicyNever, // The failure policy needs it.
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   new(true),
						RunAsUser:      new(int64(nobody)),
						RunAsGroup:     new(int64(nobody)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{j.container(args)},
					Volumes:    []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
}

func (j *migrationJob) container(args []string) corev1.Container {
	return corev1.Container{
		Name:  "migrate",
		Image: j.image,
		Args:  args,
		Env:   []corev1.EnvVar{{Name: "HOME", Value: scratch}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: scratch}},
	}
}
