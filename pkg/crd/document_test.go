package crd_test

import (
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

func TestPath(t *testing.T) {
	t.Parallel()
	v1 := crd.Document{Item: "items[2]"}
	beta := crd.Document{V1beta1: true, Common: []string{"validation", "additionalPrinterColumns"}}
	for _, test := range []struct {
		document    crd.Document
		field, want string
	}{
		{v1, "", "items[2]"},
		{v1, "spec.versions[0].schema", "items[2].spec.versions[0].schema"},
		{v1, "spec.conversion.webhook.clientConfig", "items[2].spec.conversion.webhook.clientConfig"},
		{beta, "", ""},
		{beta, "spec.versions", "spec.versions"},
		{beta, "spec.versions[10]", "spec.versions[10]"},
		{beta, "spec.versions[10].deprecated", "spec.versions[10].deprecated"},
		{beta, "spec.versions[10].subresources.status", "spec.versions[10].subresources.status"},
		{beta, "spec.versions[1].schema", "spec.validation"},
		{beta, "spec.versions[1].schema.openAPIV3Schema.properties[a.b]", "spec.validation.openAPIV3Schema.properties[a.b]"},
		{beta, "spec.versions[1].additionalPrinterColumns[0].jsonPath", "spec.additionalPrinterColumns[0].JSONPath"},
		{crd.Document{V1beta1: true}, "spec.versions[1].additionalPrinterColumns[0].jsonPath", "spec.versions[1].additionalPrinterColumns[0].JSONPath"},
		{crd.Document{V1beta1: true}, "spec.versions[1].schema", "spec.versions[1].schema"},
		{beta, "spec.conversion.strategy", "spec.conversion.strategy"},
		{beta, "spec.conversion.webhook.clientConfig.url", "spec.conversion.webhookClientConfig.url"},
		{beta, "spec.conversion.webhook.conversionReviewVersions[0]", "spec.conversion.conversionReviewVersions[0]"},
	} {
		if got := test.document.Path(test.field); got != test.want {
			t.Errorf("%s: got %s, want %s", test.field, got, test.want)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	if values, err := (crd.Origin{}).Values(); err != nil || values != nil {
		t.Errorf("live: %v, %v", values, err)
	}
	if values, err := (crd.Origin{File: "a", JSON: []byte(`{"kind":"x"}`)}).Values(); err != nil || values["kind"] != "x" {
		t.Errorf("%v, %v", values, err)
	}
	if _, err := (crd.Origin{File: "a", Line: 2, JSON: []byte(`[]`)}).Values(); err == nil || err.Error()[:5] != "a:2: " {
		t.Errorf("%v", err)
	}
}
