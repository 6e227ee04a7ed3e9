package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/etcd"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

const storedLong = `Show at which version objects are really persisted: read from etcd itself, or from
a snapshot of it, and put beside what status.storedVersions claims.

The API server converts on reading, so that no client can see it, and
status.storedVersions can claim less than the truth. The snapshot is a file that
"etcdctl snapshot save" wrote; or member/snap/db, copied from a data directory
whose etcd does not run. No cluster is needed: the CRDs are in the snapshot, too.
With --etcd-endpoints a running etcd is read, each CRD at one revision.

  storage version   the objects are where they belong
  not migrated yet  another version, which status.storedVersions lists
  NOT LISTED        status.storedVersions does not list it: the API server lets
                    anybody remove the version, and the objects could no longer
                    be read
  NOT IN SPEC       spec.versions does not have it: the objects cannot be read
  unknown           encrypted at rest, or not what an API server writes for the CRD:
                    damaged, or of another group

Of the objects no more is looked at than apiVersion, kind, and whether the value
is whole, and nothing but names and counts is shown. Nothing is written.

The exit code is 2 if objects are stored at a version that is not listed or not
in the spec, or cannot be decoded, or if a CRD could not be read, so that which
version is right is not known; with --at, if there is an object at that version,
or one that might be, because it is encrypted or cannot be decoded.

With --namespace only objects in it are counted. One that is neither in etcd nor
has such objects is a mistake, and so is a CRD whose objects are in no namespace.`

const storedExample = `  # All CRDs of a snapshot
  kubectl crdver stored --etcd-snapshot snapshot.db

  # Which objects are still stored at v1beta1? None: exit code 0
  kubectl crdver stored crontabs --at v1beta1 --etcd-snapshot snapshot.db

  # A running etcd, on a node of the control plane that kubeadm made
  kubectl crdver stored --etcd-endpoints https://127.0.0.1:2379 \
    --etcd-cacert /etc/kubernetes/pki/etcd/ca.crt \
    --etcd-cert /etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --etcd-key /etc/kubernetes/pki/etcd/healthcheck-client.key

  # OpenShift
  kubectl crdver stored --etcd-snapshot snapshot.db --etcd-prefix kubernetes.io

  # Objects that are encrypted, or that cannot be decoded
  kubectl crdver stored crontabs --at undecodable --etcd-snapshot snapshot.db`

type storedOptions struct {
	etcd        etcdFlags
	at          string
	namespace   string
	byNamespace bool
	print       *printers.Flags
}

func newStoredCommand(f *Factory) *cobra.Command {
	o := storedOptions{print: printers.NewFlags()}
	command := &cobra.Command{
		Use:               "stored [CRD...]",
		Short:             "Show what etcd holds: at which version objects are stored",
		Long:              storedLong,
		Example:           storedExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	flags := command.Flags()
	o.etcd.add(command, "to read")
	flags.StringVar(&o.at, "at", "", "List the objects that are stored at this version, or the ones that are "+etcd.AtEncrypted+" or "+etcd.AtUndecodable)
	flags.BoolVar(&o.byNamespace, "by-namespace", false, "Count by namespace")
	AddTimeoutFlag(command, "Give up after this time")
	o.print.AddFlags(command)
	command.MarkFlagsMutuallyExclusive("at", "by-namespace")
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *storedOptions) check(command *cobra.Command) error {
	if err := checkNotEmpty(command); err != nil {
		return err
	}
	if err := o.etcd.validate(command); err != nil {
		return err
	}
	switch {
	case !o.etcd.given():
		return UsageErrorf(command, "name what to read: --etcd-snapshot FILE or --etcd-endpoints URL")
	case command.Flags().Changed("at") && o.at == "":
		return UsageErrorf(command, "--at is empty: name a version")
	}
	return nil
}

func (o *storedOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := o.check(command); err != nil {
		return err
	}
	// Not that of a kubeconfig, which this command does not need: it would hide the rest.
	if flag := command.Flags().Lookup("namespace"); flag != nil && flag.Changed {
		o.namespace = flag.Value.String()
	}
	report, err := o.report(command.Context(), args)
	if err != nil {
		return err
	}
	if err := printers.SortBy(report.Items, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	f.tell("%s\n", printers.Escape(sourceLine(report.Etcd)))
	for _, name := range report.UnreadableCRDs {
		f.Warn("a CRD in etcd could not be read: " + name)
	}
	if err := printer.Print(f.Out, storedDocument(report)); err != nil {
		return err
	}
	return o.outcome(f, report)
}

// report reads etcd.
func (o *storedOptions) report(ctx context.Context, args []string) (*v1alpha1.StoredReport, error) {
	from, err := o.etcd.open(ctx)
	if err != nil {
		return nil, err
	}
	defer from.Close() //nolint:errcheck // Only read.
	definitions, err := etcd.ReadDefinitions(ctx, from)
	if err != nil {
		return nil, err
	}
	targets, err := storedTargets(ctx, definitions, from.Describe().Prefix, args)
	if err != nil {
		return nil, err
	}
	if targets, err = o.inNamespaces(targets, len(args) > 0); err != nil {
		return nil, err
	}
	items, err := etcd.Count(ctx, from, targets, etcd.CountOptions{Namespaces: o.byNamespace, Namespace: o.namespace, At: o.at})
	if err != nil {
		return nil, err
	}
	if err := o.noNamespace(ctx, from, items); err != nil {
		return nil, err
	}
	report := &v1alpha1.StoredReport{
		TypeMeta: typeMeta(v1alpha1.KindStoredReport), Etcd: from.Describe(), At: o.at, Summary: storedSummary(items), Items: items,
	}
	for _, one := range definitions.Unreadable {
		if slices.ContainsFunc(items, func(item v1alpha1.StoredCRD) bool { return item.Name == one.Name }) {
			report.UnreadableCRDs = append(report.UnreadableCRDs, one.Name+": "+one.Reason)
		}
	}
	for _, item := range items {
		if item.Objects == 0 && len(args) > 0 && !definitions.Has(item.Name) {
			return nil, fmt.Errorf("etcd has neither a CRD %s nor objects of it%s, below %s", item.Name, o.where(), from.Describe().Prefix)
		}
	}
	if err := o.mistyped(targets, report); err != nil {
		return nil, err
	}
	return report, nil
}

// inNamespaces returns those of the resources that --namespace fits. The objects of
// others are in none; to name one of these is a mistake.
func (o *storedOptions) inNamespaces(targets []etcd.Target, named bool) ([]etcd.Target, error) {
	if o.namespace == "" {
		return targets, nil
	}
	var fit []etcd.Target
	for _, target := range targets {
		switch crd := target.CRD; {
		case crd == nil || crd.Spec.Scope != apiextensionsv1.ClusterScoped:
			fit = append(fit, target)
		case named:
			return nil, fmt.Errorf("the objects of %s are in no namespace: --namespace does not fit", crd.Name)
		}
	}
	if len(fit) == 0 {
		return nil, fmt.Errorf("the objects of the %d CRDs in etcd are in no namespace: --namespace does not fit", len(targets))
	}
	return fit, nil
}

// noNamespace returns an error where the namespace can only be mistyped: it is not in
// etcd, and no object that was looked at is in it. That there are none of an old
// version in it would be true, and be taken for an answer.
func (o *storedOptions) noNamespace(ctx context.Context, from etcd.Source, items []v1alpha1.StoredCRD) error {
	if o.namespace == "" || slices.ContainsFunc(items, func(item v1alpha1.StoredCRD) bool { return item.Objects > 0 }) {
		return nil
	}
	found, err := etcd.HasNamespace(ctx, from, o.namespace)
	switch {
	case err != nil:
		return fmt.Errorf("looking for the namespace %s: %w", o.namespace, err)
	case !found:
		return fmt.Errorf("there is no namespace %s in etcd, below %s, and no object in it: check its name, or leave --namespace out",
			o.namespace, from.Describe().Prefix)
	}
	return nil
}

// where says which objects are looked at, where these are not all.
func (o *storedOptions) where() string {
	if o.namespace == "" {
		return ""
	}
	return " in the namespace " + o.namespace
}

// mistyped returns an error where nothing knows the version of --at: no CRD that was
// looked at has it, or lists it as stored, or had it until a retirement, or might have
// it, and no object is, or might be, stored at it.
func (o *storedOptions) mistyped(targets []etcd.Target, report *v1alpha1.StoredReport) error {
	if o.at == "" || o.at == etcd.AtEncrypted || o.at == etcd.AtUndecodable || len(report.UnreadableCRDs) > 0 {
		return nil
	}
	var have []string
	items := report.Items
	for _, target := range targets {
		if target.CRD != nil && plan.Retired(target.CRD.Annotations, o.at) {
			return nil
		}
	}
	for _, item := range items {
		have = slices.Concat(have, item.Versions, item.StoredVersions)
		for _, count := range item.Stored {
			if count.Version == "" {
				return nil
			}
			have = append(have, count.Version)
		}
	}
	switch {
	case slices.Contains(have, o.at):
		return nil
	case len(items) == 1:
		return noSuchVersion(items[0].Name+" does not have, and etcd has no object of it"+o.where()+" at,", o.at, have)
	default:
		return noSuchVersion(fmt.Sprintf("none of the %d resources that were looked at has, or has objects%s at,", len(items), o.where()), o.at, have)
	}
}

// storedTargets returns the resources that args name, or else those of all CRDs.
// One that is named in full may be without a CRD: that is what is to be found out.
func storedTargets(ctx context.Context, definitions etcd.Definitions, prefix string, args []string) ([]etcd.Target, error) {
	var targets []etcd.Target
	if len(args) == 0 {
		for _, one := range definitions.Items {
			targets = append(targets, etcd.TargetOf(one))
		}
		for _, one := range definitions.Unreadable {
			targets = append(targets, one.Target())
		}
		if len(targets) == 0 {
			return nil, fmt.Errorf("etcd has no CustomResourceDefinitions below %s: if the API server runs with another --etcd-prefix, give it with --etcd-prefix (kubernetes.io on OpenShift)", prefix)
		}
		return targets, nil
	}
	known := map[string]bool{}
	for _, arg := range args {
		target := etcd.TargetNamed(arg)
		found, err := source.Resolve(ctx, etcdCRDs{definitions}, []string{arg}, source.Selection{})
		switch {
		case err == nil:
			target = etcd.TargetOf(found[0].CustomResourceDefinition)
		case target.Resource.Group == "" || strings.Contains(arg, "/"):
			return nil, fmt.Errorf("in etcd, below %s: %w", prefix, err)
		}
		if name := target.Resource.String(); !known[name] {
			known[name] = true
			targets = append(targets, target)
		}
	}
	return targets, nil
}

// sourceLine says what was read.
func sourceLine(from v1alpha1.EtcdSource) string {
	if from.Snapshot == "" {
		return fmt.Sprintf("etcd at %s, revision %d", strings.Join(from.Endpoints, ", "), from.Revision)
	}
	checksum := map[string]string{
		etcd.ChecksumVerified: "checksum verified", etcd.ChecksumNone: "which has no checksum", etcd.ChecksumSkipped: "checksum not looked at",
	}
	return fmt.Sprintf("etcd snapshot %s, revision %d, %s", from.Snapshot, from.Revision, checksum[from.Checksum])
}

func storedSummary(items []v1alpha1.StoredCRD) v1alpha1.StoredSummary {
	summary := v1alpha1.StoredSummary{CRDs: len(items)}
	counters := map[v1alpha1.StoredState]*int64{
		v1alpha1.StoredCurrent: &summary.Current, v1alpha1.StoredListed: &summary.Listed, v1alpha1.StoredUnlisted: &summary.Unlisted,
		v1alpha1.StoredUnreadable: &summary.Unreadable, v1alpha1.StoredEncrypted: &summary.Encrypted,
		v1alpha1.StoredUndecodable: &summary.Undecodable, v1alpha1.StoredWithoutCRD: &summary.WithoutCRD,
	}
	for _, item := range items {
		summary.Objects += item.Objects
		for _, count := range item.Stored {
			*counters[count.State] += count.Objects
		}
	}
	return summary
}

// storedDocument returns the report in all its forms.
func storedDocument(report *v1alpha1.StoredReport) printers.Document {
	document := printers.Document{Object: report, Table: printers.StoredTable(report)}
	for _, item := range report.Items {
		if report.At == "" {
			document.Items = append(document.Items, item)
			document.Names = append(document.Names, crdName(item.Name))
			continue
		}
		for _, object := range item.Found {
			document.Items = append(document.Items, object)
			document.Names = append(document.Names, item.Name+"/"+strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"))
		}
	}
	return document
}

// outcome says what is to be done, and gives findings their exit code.
func (o *storedOptions) outcome(f *Factory, report *v1alpha1.StoredReport) error {
	if o.at != "" {
		return o.outcomeAt(f, report)
	}
	for _, item := range report.Items {
		for _, note := range printers.StoredNotes(item) {
			f.tell("%s\n", printers.Escape(note))
		}
	}
	if s := report.Summary; s.Unlisted+s.Unreadable+s.Undecodable > 0 || len(report.UnreadableCRDs) > 0 {
		return Pending()
	}
	return nil
}

// outcomeAt answers the question whether anything is stored at a version. What
// is encrypted or cannot be decoded might be.
func (o *storedOptions) outcomeAt(f *Factory, report *v1alpha1.StoredReport) error {
	found, known := 0, o.at == etcd.AtEncrypted || o.at == etcd.AtUndecodable
	for _, item := range report.Items {
		found += len(item.Found)
		known = known || slices.Contains(item.Versions, o.at) || slices.Contains(item.StoredVersions, o.at)
	}
	if found == 0 {
		f.tell("No object%s is known to be stored at %s\n", printers.Escape(o.where()), printers.Escape(o.at))
		if !known {
			f.Warn(fmt.Sprintf("no CRD that was looked at has a version %s", printers.Escape(o.at)))
		}
	}
	unknown := report.Summary.Encrypted + report.Summary.Undecodable
	if o.at == etcd.AtEncrypted || o.at == etcd.AtUndecodable {
		unknown = 0
	}
	if unknown > 0 {
		f.Warn(fmt.Sprintf("the version of %s is not known, encrypted or not to be decoded: it may be %s, too", english.Plural(unknown, "object"), o.at))
	}
	if found > 0 || unknown > 0 {
		return Pending()
	}
	return nil
}
