package fleet

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// maxKubeconfig bounds the files that are read as kubeconfigs: a folder may hold
// anything.
const maxKubeconfig = 16 << 20

// maxListed is how many contexts an error lists.
const maxListed = 10

// Member is one context of a kubeconfig.
type Member struct {
	// Name is what the member is called: the name of the context, after that of the
	// file where several files have it.
	Name string
	// Context is the name of the context in its kubeconfig.
	Context string
	// Kubeconfig is the file; empty for what kubectl uses.
	Kubeconfig string
	// Way is how the address of the server is reached: through which proxy, and to
	// whose certificate. The same address by another way may be another cluster.
	Way string
	// Err says why the file leads to no cluster.
	Err error
}

// FromConfig returns the contexts of a kubeconfig, by name. One whose cluster is not
// there is not asked: client-go would take http://localhost:8080 instead, which may
// be another cluster.
func FromConfig(config clientcmdapi.Config) []Member {
	var members []Member
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		one := Member{Name: name, Context: name}
		called := config.Contexts[name].Cluster
		if cluster := config.Clusters[called]; cluster == nil {
			one.Err = fmt.Errorf("the kubeconfig has no cluster %q, which the context names", called)
		} else {
			one.Way = cluster.ProxyURL + " " + cluster.TLSServerName
		}
		members = append(members, one)
	}
	return members
}

// FromDir returns the contexts of all kubeconfigs in a folder, by file and name.
// Hidden files and folders are left out. A file that is no kubeconfig is a member
// that cannot be asked: it might be that of a cluster that somebody counts on.
func FromDir(dir string) ([]Member, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of kubeconfigs: %w", err)
	}
	var members []Member
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		// Through links: those of a mounted Secret are all links.
		info, err := os.Stat(path)
		if strings.HasPrefix(entry.Name(), ".") || err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			err = readable(info)
		}
		if err != nil {
			members = append(members, Member{Name: entry.Name(), Kubeconfig: path, Err: err})
			continue
		}
		members = append(members, fromFile(path)...)
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%s has no kubeconfigs", dir)
	}
	distinguish(members)
	return members, nil
}

// readable refuses what would block or fill the memory.
func readable(info os.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errors.New("not a kubeconfig: not a regular file")
	case info.Size() > maxKubeconfig:
		return fmt.Errorf("not a kubeconfig: larger than %d MiB", maxKubeconfig>>20)
	}
	return nil
}

func fromFile(path string) []Member {
	config, err := clientcmd.LoadFromFile(path)
	if err == nil && len(config.Contexts) == 0 {
		err = errors.New("it has no contexts")
	}
	if err != nil {
		return []Member{{Name: filepath.Base(path), Kubeconfig: path, Err: fmt.Errorf("not a kubeconfig: %w", err)}}
	}
	members := FromConfig(*config)
	for i := range members {
		members[i].Kubeconfig = path
	}
	return members
}

// distinguish puts the name of the file before those that several files have.
func distinguish(members []Member) {
	count := map[string]int{}
	for _, one := range members {
		count[one.Name]++
	}
	for i, one := range members {
		if count[one.Name] > 1 {
			members[i].Name = filepath.Base(one.Kubeconfig) + ":" + one.Context
		}
	}
}

// Choose returns the members that patterns name, in the order of the patterns, each
// once; all without patterns. In a pattern, * stands for any characters and ? for
// one; a context that is really called like that comes first. Members without a
// context stay: what they would have been is not known.
func Choose(members []Member, patterns []string) ([]Member, error) {
	if len(patterns) == 0 {
		return members, nil
	}
	var chosen []Member
	add := func(one Member) {
		if !slices.ContainsFunc(chosen, func(other Member) bool { return other.Name == one.Name && other.Kubeconfig == one.Kubeconfig }) {
			chosen = append(chosen, one)
		}
	}
	for _, pattern := range patterns {
		found := matching(members, func(name string) bool { return name == pattern })
		if len(found) == 0 {
			found = matching(members, func(name string) bool { return match(pattern, name) })
		}
		if len(found) == 0 {
			return nil, unknown(members, pattern)
		}
		for _, one := range found {
			add(one)
		}
	}
	for _, one := range members {
		if one.Context == "" {
			add(one)
		}
	}
	return chosen, nil
}

func matching(members []Member, matches func(name string) bool) []Member {
	var found []Member
	for _, one := range members {
		if one.Context != "" && (matches(one.Name) || matches(one.Context)) {
			found = append(found, one)
		}
	}
	return found
}

// unknown is the error for a pattern that no context matches.
func unknown(members []Member, pattern string) error {
	var names []string
	for _, one := range members {
		if one.Context != "" {
			names = append(names, one.Name)
		}
	}
	message := fmt.Sprintf("no context is named %q", pattern)
	if strings.ContainsAny(pattern, "*?") {
		message = fmt.Sprintf("no context matches %q", pattern)
	}
	if near := lifecycle.Nearest(pattern, names); near != "" {
		return fmt.Errorf("%s; did you mean %q?", message, near)
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("%s: there are no contexts", message)
	case len(names) > maxListed:
		return fmt.Errorf("%s; there are %s and %d more", message, strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return fmt.Errorf("%s; there are %s", message, strings.Join(names, ", "))
}

// match tells whether a pattern with * and ? is all of a name. Names of contexts
// have any characters, slashes and brackets, too, that other patterns treat as
// something else. It takes no more than the product of the lengths.
func match(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
	star, from := -1, 0
	i, j := 0, 0
	for j < len(n) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i, j = i+1, j+1
		case star >= 0: // The last star takes one more.
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
