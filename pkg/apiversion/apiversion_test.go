package apiversion

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/version"
)

// reference returns the order of the Kubernetes documentation.
func reference() []string {
	return []string{"v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"}
}

func TestReferenceOrder(t *testing.T) {
	want := reference()
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		names := slices.Clone(want)
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		shuffled := slices.Clone(names)
		if diff := cmp.Diff(want, Sorted(names)); diff != "" {
			t.Fatalf("from %v (-want +got):\n%s", shuffled, diff)
		}
		if !slices.Equal(names, shuffled) {
			t.Fatal("Sorted changed its argument")
		}
		Sort(names)
		if !slices.Equal(names, want) {
			t.Fatalf("Sort left %v", names)
		}
	}
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name string
		want Version
	}{
		{"v1", Version{Stability: GA, Major: 1}},
		{"v0", Version{Stability: GA}},
		{"v01", Version{Stability: GA, Major: 1}},
		{"v11beta2", Version{Stability: Beta, Major: 11, Minor: 2}},
		{"v1alpha10", Version{Stability: Alpha, Major: 1, Minor: 10}},
		{"v1beta", Version{}},
		{"v1beta1-1", Version{}},
		{"v1gamma1", Version{}},
		{"v1alpha1beta1", Version{}},
		{"V1", Version{}},
		{"v", Version{}},
		{"1", Version{}},
		{"", Version{}},
		{"v1.2.3", Version{}},
		{"v1\n", Version{}},
		{"v1api20230315preview", Version{}},
		{"v١", Version{}}, // An Arabic-Indic digit.
		{"v9223372036854775807", Version{Stability: GA, Major: 9223372036854775807}},
		{"v9223372036854775808", Version{}},
		{"v1beta99999999999999999999", Version{}},
	} {
		test.want.Name = test.name
		if got := Parse(test.name); got != test.want {
			t.Errorf("Parse(%q) = %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestStabilityString(t *testing.T) {
	for stability, want := range map[Stability]string{
		GA: "GA", Beta: "beta", Alpha: "alpha", NonConforming: "non-conforming", 7: "Stability(7)",
	} {
		if got := stability.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestTies is server fact 19: upstream finds these equal, we do not.
func TestTies(t *testing.T) {
	for _, pair := range [][2]string{{"v1", "v01"}, {"v01", "v001"}, {"v1beta1", "v1beta01"}, {"v1beta1", "v01beta1"}, {"v01beta1", "v1beta01"}} {
		higher, lower := pair[0], pair[1]
		if !Tie(higher, lower) || !Tie(lower, higher) {
			t.Errorf("%s and %s do not tie", higher, lower)
		}
		// The names of the last pair are equally long: the alphabetically first is higher.
		if got := Compare(higher, lower); got <= 0 {
			t.Errorf("Compare(%s, %s) = %d", higher, lower, got)
		}
		if got := Compare(lower, higher); got >= 0 {
			t.Errorf("Compare(%s, %s) = %d", lower, higher, got)
		}
	}
	for _, pair := range [][2]string{{"v1", "v1"}, {"v1", "v2"}, {"foo1", "foo01"}, {"v1", "v1beta1"}} {
		if Tie(pair[0], pair[1]) {
			t.Errorf("%s and %s tie", pair[0], pair[1])
		}
	}
}

func TestExplain(t *testing.T) {
	for _, test := range []struct{ higher, lower, want string }{
		{"v10", "v2", "major 10 > 2 (v2)"},
		{"v1", "v11beta2", "GA before beta (v11beta2)"},
		{"v3beta1", "v12alpha1", "beta before alpha (v12alpha1)"},
		{"v1beta2", "v1beta1", "beta 2 > 1 (v1beta1)"},
		{"v11alpha2", "foo1", "alpha before a name that does not conform (foo1)"},
		{"foo1", "foo10", "not like v1, v1beta1 or v1alpha1: alphabetical before foo10"},
		{"v1", "v01", "same priority as v01: ordered by name, and undefined for the API server"},
	} {
		if got := Explain(test.higher, test.lower); got != test.want {
			t.Errorf("Explain(%s, %s) = %q, want %q", test.higher, test.lower, got, test.want)
		}
	}
}

// randomName returns a name that is likely to be near, like or equal to others.
func randomName(random *rand.Rand) string {
	number := func() string {
		switch random.IntN(12) {
		case 0:
			return "0" + strconv.Itoa(random.IntN(12))
		case 1:
			return "00" + strconv.Itoa(random.IntN(3))
		case 2:
			return strconv.FormatUint(random.Uint64(), 10) // Half of them do not fit into an int.
		case 3:
			return ""
		default:
			return strconv.Itoa(random.IntN(25))
		}
	}
	switch random.IntN(10) {
	case 0:
		return []string{"foo", "bar", "v", "V", "", "beta", "v1api", "v-"}[random.IntN(8)] + number()
	case 1:
		letters := []byte("v0129abetlph-.\x1b\n")
		name := make([]byte, random.IntN(8))
		for i := range name {
			name[i] = letters[random.IntN(len(letters))]
		}
		return string(name)
	case 2, 3:
		return "v" + number()
	default:
		return "v" + number() + []string{"alpha", "beta", "alpha", "beta", "gamma"}[random.IntN(5)] + number()
	}
}

// TestTenThousandNames compares with upstream: wherever it decides between two
// names, we decide the same way, and where it does not, ours is still a total
// order, so that every permutation sorts into the same list.
func TestTenThousandNames(t *testing.T) {
	random := rand.New(rand.NewPCG(20261130, 42))
	names := make([]string, 10_000)
	for i := range names {
		names[i] = randomName(random)
	}
	sorted := Sorted(names)
	ties := 0
	for i := 1; i < len(sorted); i++ {
		before, after := sorted[i-1], sorted[i]
		checkPair(t, before, after)
		if Compare(before, after) < 0 {
			t.Fatalf("%q is before %q, which is higher", before, after)
		}
		if version.CompareKubeAwareVersionStrings(before, after) < 0 {
			t.Fatalf("%q is before %q, which is higher for the API server", before, after)
		}
		if Tie(before, after) {
			ties++
		}
	}
	if ties == 0 {
		t.Error("no two names tie: the names test nothing about ties")
	}
	for range 10_000 {
		checkTriple(t, names[random.IntN(len(names))], names[random.IntN(len(names))], names[random.IntN(len(names))])
	}
	for range 3 {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if !slices.Equal(Sorted(names), sorted) {
			t.Fatal("the order depends on the order before")
		}
	}
	// Upstream's own order of the group document: a stable sort by its comparison.
	upstream := slices.Clone(sorted)
	slices.SortStableFunc(upstream, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	if !slices.Equal(upstream, sorted) {
		t.Fatal("upstream's comparison orders the sorted names differently")
	}
}

// checkPair fails unless Compare is antisymmetric, zero only for equal names
// and never against upstream, and Parse agrees with it.
func checkPair(t *testing.T, a, b string) {
	t.Helper()
	ours, theirs := Compare(a, b), version.CompareKubeAwareVersionStrings(a, b)
	if sign(ours) != -sign(Compare(b, a)) {
		t.Fatalf("Compare(%q, %q) = %d and Compare(%q, %q) = %d", a, b, ours, b, a, Compare(b, a))
	}
	if (ours == 0) != (a == b) {
		t.Fatalf("Compare(%q, %q) = %d", a, b, ours)
	}
	if theirs != 0 && sign(ours) != sign(theirs) {
		t.Fatalf("Compare(%q, %q) = %d, upstream %d", a, b, ours, theirs)
	}
	if Tie(a, b) != (a != b && theirs == 0) {
		t.Fatalf("Tie(%q, %q) = %t, upstream %d", a, b, Tie(a, b), theirs)
	}
	if p, q := Parse(a), Parse(b); p.Stability != q.Stability && sign(ours) != sign(int(p.Stability)-int(q.Stability)) {
		t.Fatalf("%q is %s and %q is %s, but Compare gives %d", a, p.Stability, b, q.Stability, ours)
	}
	higher, lower := a, b
	if ours < 0 {
		higher, lower = b, a
	}
	if why := Explain(higher, lower); a != b && !strings.Contains(why, lower) {
		t.Fatalf("Explain(%q, %q) = %q", higher, lower, why)
	}
}

func checkTriple(t *testing.T, a, b, c string) {
	t.Helper()
	checkPair(t, a, b)
	if Compare(a, b) >= 0 && Compare(b, c) >= 0 && Compare(a, c) < 0 {
		t.Fatalf("not transitive: %q, %q, %q", a, b, c)
	}
}

func sign(n int) int {
	return min(max(n, -1), 1)
}

func FuzzCompare(f *testing.F) {
	names := append(reference(), "", "v01", "v1beta", "v1beta01", "v9223372036854775808", "V1", "v1\x00", "v1 ")
	for i := range names {
		f.Add(names[i], names[(i+1)%len(names)], names[(i+5)%len(names)])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, triple := range [][3]string{{a, b, c}, {b, c, a}, {c, a, b}, {a, c, b}, {c, b, a}, {b, a, c}} {
			checkTriple(t, triple[0], triple[1], triple[2])
		}
	})
}
