package cmd

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/etcd"
)

// etcdFlags say which etcd is read, or which snapshot of one.
type etcdFlags struct {
	snapshot     string
	skipChecksum bool
	endpoints    string
	cacert       string
	cert         string
	key          string
	prefix       string
}

// etcdWords returns the flags that lead to an etcd as they were typed: a command
// to paste must lead to the same one.
func etcdWords(command *cobra.Command) []string {
	var words []string
	for _, name := range []string{"etcd-snapshot", "etcd-skip-checksum", "etcd-endpoints", "etcd-cacert", "etcd-cert", "etcd-key", "etcd-prefix"} {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			words = append(words, shellQuote("--"+name+"="+flag.Value.String()))
		}
	}
	return words
}

// etcdEvidenceHelp is what the help of a changing command says of its etcd flags.
const etcdEvidenceHelp = `With --etcd-endpoints, etcd itself is read: for the plan, and once more after the
verify pass, before anything is trimmed or removed, which is refused if an object is
stored at another version. With --etcd-snapshot the plan warns of what the snapshot
holds; a snapshot is older than the migration, and proves nothing about its result.`

// addEvidence adds the flags to a changing command.
func (e *etcdFlags) addEvidence(command *cobra.Command) {
	e.add(command, "to take as evidence, beside the verify pass, of what is stored")
	command.Long += "\n\n" + etcdEvidenceHelp
}

// add adds the flags. purpose says what etcd is read for.
func (e *etcdFlags) add(command *cobra.Command, purpose string) {
	flags := command.Flags()
	flags.StringVar(&e.snapshot, "etcd-snapshot", "", "Snapshot that 'etcdctl snapshot save' wrote, or a copied database of etcd, "+purpose)
	flags.BoolVar(&e.skipChecksum, "etcd-skip-checksum", false, "Read a snapshot although its checksum is wrong")
	flags.StringVar(&e.endpoints, "etcd-endpoints", "", "Comma-separated URLs of a running etcd "+purpose+
		"; ETCDCTL_USER and ETCDCTL_PASSWORD are read from the environment")
	flags.StringVar(&e.cacert, "etcd-cacert", "", "File with the CA certificates to check those of etcd against")
	flags.StringVar(&e.cert, "etcd-cert", "", "File with the client certificate for etcd")
	flags.StringVar(&e.key, "etcd-key", "", "File with the key of the client certificate for etcd")
	flags.StringVar(&e.prefix, "etcd-prefix", etcd.DefaultPrefix, "What the keys in etcd begin with: the API server's own --etcd-prefix; kubernetes.io on OpenShift")
	for _, name := range []string{"etcd-snapshot", "etcd-cacert", "etcd-cert", "etcd-key"} {
		_ = command.MarkFlagFilename(name) // The only error is about a flag that does not exist.
	}
	command.MarkFlagsMutuallyExclusive("etcd-snapshot", "etcd-endpoints")
	command.MarkFlagsRequiredTogether("etcd-cert", "etcd-key")
}

// given reports whether there is an etcd to read.
func (e *etcdFlags) given() bool { return e.snapshot != "" || e.endpoints != "" }

// validate checks the flags against each other. An empty value stands for a
// variable of a script that is not set, and must not mean that nobody asked.
func (e *etcdFlags) validate(command *cobra.Command) error {
	changed := command.Flags().Changed
	switch {
	case changed("etcd-snapshot") && e.snapshot == "":
		return UsageErrorf(command, "--etcd-snapshot is empty: name a file")
	case changed("etcd-endpoints") && len(e.members()) == 0:
		return UsageErrorf(command, "--etcd-endpoints is empty: name URLs")
	case e.endpoints == "" && (e.cacert != "" || e.cert != ""):
		return UsageErrorf(command, "--etcd-cacert, --etcd-cert and --etcd-key belong to --etcd-endpoints")
	case e.snapshot == "" && e.skipChecksum:
		return UsageErrorf(command, "--etcd-skip-checksum belongs to --etcd-snapshot")
	case !e.given() && changed("etcd-prefix"):
		return UsageErrorf(command, "--etcd-prefix belongs to --etcd-snapshot or --etcd-endpoints")
	}
	return nil
}

// members returns the endpoints one by one.
func (e *etcdFlags) members() []string {
	var members []string
	for member := range strings.SplitSeq(e.endpoints, ",") {
		if member = strings.TrimSpace(member); member != "" {
			members = append(members, member)
		}
	}
	return members
}

// open opens the snapshot, or prepares the connection.
func (e *etcdFlags) open(ctx context.Context) (etcd.Source, error) {
	if e.snapshot != "" {
		return etcd.OpenSnapshot(ctx, e.snapshot, etcd.SnapshotOptions{Prefix: e.prefix, SkipChecksum: e.skipChecksum})
	}
	// As etcdctl has it: the password may be in one of them or in the other.
	user, password, _ := strings.Cut(os.Getenv("ETCDCTL_USER"), ":")
	return etcd.OpenLive(etcd.LiveOptions{
		Endpoints: e.members(), CAFile: e.cacert, CertFile: e.cert, KeyFile: e.key, Prefix: e.prefix,
		User: user, Password: cmp.Or(os.Getenv("ETCDCTL_PASSWORD"), password),
	})
}
