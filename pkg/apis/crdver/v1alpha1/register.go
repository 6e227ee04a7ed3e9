package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group of the documents.
	GroupName = "crdver.dev"
	// DocumentVersion is the version of the documents in this package.
	DocumentVersion = "v1alpha1"
)

// Kinds of the documents in this package.
const (
	KindVersionList = "VersionList"
	KindStatusList  = "StatusList"
	KindPlan        = "Plan"
	KindPlanList    = "PlanList"
	KindReport      = "Report"
	KindReportList  = "ReportList"
	KindEvent       = "Event"

	KindFailureReport = "FailureReport"
	KindObjectReport  = "ObjectReport"

	KindValidationReport = "ValidationReport"
	KindRuleList         = "RuleList"
	KindValidationConfig = "ValidationConfig"
	KindPreflightReport  = "PreflightReport"
)

// GroupVersion returns crdver.dev/v1alpha1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: DocumentVersion}
}

// AddToScheme registers the documents of this package with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&VersionList{}, &StatusList{},
		&Plan{}, &PlanList{},
		&Report{}, &ReportList{},
		&Event{},
		&FailureReport{}, &ObjectReport{},
		&ValidationReport{}, &RuleList{}, &ValidationConfig{}, &PreflightReport{},
		&RoundTripReport{}, &AcceptedDifferences{},
		&WebhookCheckReport{}, &StoredReport{},
		&UsageReport{},
		&FleetReport{}, &CanRemoveReport{},
	)
	return nil
}
