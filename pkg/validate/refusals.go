package validate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Refusals returns the errors with which the API server would refuse the CRD,
// as its own code finds them: that of a create for a manifest, and for a live
// CRD those of an update that changes nothing. A CRD that cannot be converted
// to the internal version is a refusal, too.
func (s *Subject) Refusals() []Refusal {
	if s.refusals == nil {
		refusals := s.refuse()
		s.refusals = &refusals
	}
	return *s.refusals
}

func (s *Subject) refuse() []Refusal {
	internal, err := Internal(s.CRD)
	if err != nil {
		return []Refusal{{Error: field.Invalid(field.NewPath("spec"), "", err.Error()), Path: "spec"}}
	}
	if s.Live() {
		updated := internal.DeepCopy()
		PrepareForUpdate(updated, internal)
		if updated.ResourceVersion == "" {
			// It is what an update is based on, and says nothing about the CRD.
			updated.ResourceVersion = "1"
		}
		return NewRefusals(s.CRD, validation.ValidateCustomResourceDefinitionUpdate(s.ctx, updated, internal))
	}
	PrepareForCreate(internal)
	return NewRefusals(s.CRD, validation.ValidateCustomResourceDefinition(s.ctx, internal))
}

// Internal returns the CRD as the API server validates it: with the defaults
// of the v1 API, in the internal version.
func Internal(c crd.CRD) (*apiextensions.CustomResourceDefinition, error) {
	defaulted := c.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(defaulted)
	internal := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, internal, nil)
	if err != nil {
		return nil, fmt.Errorf("converting the CRD %s to the internal version: %w", c.Name, err)
	}
	if managedfields.ValidateManagedFields(internal.ManagedFields) != nil {
		// The server goes on without those that it cannot read, before it validates:
		// [{}] is the way to clear them (FieldManager.Update in apimachinery).
		internal.ManagedFields = nil
	}
	return internal, nil
}

// PrepareForCreate sets the status that the API server gives a new CRD:
// whatever the manifest says, the first storage version is the only stored one
// (strategy.PrepareForCreate in registry/customresourcedefinition).
func PrepareForCreate(internal *apiextensions.CustomResourceDefinition) {
	internal.Status = apiextensions.CustomResourceDefinitionStatus{}
	rememberStorage(internal)
}

// PrepareForUpdate sets the status that the API server gives an updated CRD:
// that of the old one, with the storage version added (strategy.PrepareForUpdate).
func PrepareForUpdate(internal, old *apiextensions.CustomResourceDefinition) {
	internal.Status = *old.Status.DeepCopy()
	rememberStorage(internal)
}

func rememberStorage(internal *apiextensions.CustomResourceDefinition) {
	for _, version := range internal.Spec.Versions {
		if version.Storage {
			if !slices.Contains(internal.Status.StoredVersions, version.Name) {
				internal.Status.StoredVersions = append(internal.Status.StoredVersions, version.Name)
			}
			return
		}
	}
}

// NewRefusals gives each error the path of its field in the v1 API, and puts
// them in an order: upstream collects some of them in maps. The error about
// spec.version of the internal API repeats that of the first version's name.
func NewRefusals(c crd.CRD, errs field.ErrorList) []Refusal {
	refusals := make([]Refusal, 0, len(errs))
	for _, err := range errs {
		if err.Field == "spec.version" {
			continue
		}
		refusals = append(refusals, Refusal{Error: err, Path: v1Path(c, err.Field)})
	}
	slices.SortStableFunc(refusals, func(a, b Refusal) int { return comparePaths(a.Path, b.Path) })
	return refusals
}

// v1Path returns the path in the v1 API of a field of the internal one, which
// upstream's messages name (validation.go works on the internal version).
func v1Path(c crd.CRD, internal string) string {
	for _, moved := range []struct{ from, to string }{
		{"spec.conversion.webhookClientConfig", "spec.conversion.webhook.clientConfig"},
		{"spec.conversion.conversionReviewVersions", "spec.conversion.webhook.conversionReviewVersions"},
		// What all versions have in common is lifted out of them (conversion.go).
		{"spec.validation", "spec.versions[0].schema"},
		{"spec.subresources", "spec.versions[0].subresources"},
		{"spec.additionalPrinterColumns", "spec.versions[0].additionalPrinterColumns"},
		{"spec.selectableFields", "spec.versions[0].selectableFields"},
	} {
		if rest, ok := strings.CutPrefix(internal, moved.from); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			if len(c.Spec.Versions) == 0 && strings.HasPrefix(moved.to, "spec.versions") {
				return "spec"
			}
			return moved.to + rest
		}
	}
	return internal
}

// comparePaths compares paths with their indexes as numbers.
func comparePaths(a, b string) int {
	number := regexp.MustCompile(`\d+`)
	for a != "" && b != "" {
		x, y := number.FindStringIndex(a), number.FindStringIndex(b)
		if x == nil || y == nil || a[:x[0]] != b[:y[0]] {
			return strings.Compare(a, b)
		}
		m, errM := strconv.Atoi(a[x[0]:x[1]])
		n, errN := strconv.Atoi(b[y[0]:y[1]])
		switch {
		case errM != nil || errN != nil:
			return strings.Compare(a, b)
		case m != n:
			return m - n
		}
		a, b = a[x[1]:], b[y[1]:]
	}
	return len(a) - len(b)
}

func itoa(i int) string { return strconv.Itoa(i) }
