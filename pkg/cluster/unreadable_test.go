package cluster_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// TestUnreadable reads what a server of 1.37.2 answers to a LIST with a limit.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	const from = "StorageError: corrupt object, Code: 7, Key: /registry/g.example.com/crontabs/a/one, ResourceVersion: 0, " +
		"AdditionalErrorMsg: object not decodable revision=8: request to convert CR from an invalid group/version: g.example.com/v1alpha1"
	const damaged = "StorageError: corrupt object, Code: 7, Key: /registry/g.example.com/crontabs/a/two, ResourceVersion: 0, " +
		"AdditionalErrorMsg: object not decodable revision=14: invalid character 'g' looking for beginning of value"
	list := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 500, Reason: "StorageReadError", Message: "failed to read one or more crontabs.g.example.com from the storage: " + from + " (and 1 more)",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: from}, {Message: damaged}}},
	}}
	want := []cluster.UnreadableObject{
		{
			Key: "/registry/g.example.com/crontabs/a/one", GroupVersion: "g.example.com/v1alpha1", Conversion: true,
			Message: "/registry/g.example.com/crontabs/a/one: request to convert CR from an invalid group/version: g.example.com/v1alpha1",
		},
		{Key: "/registry/g.example.com/crontabs/a/two", Message: "revision=14: invalid character 'g' looking for beginning of value"},
	}
	if diff := cmp.Diff(want, cluster.Unreadable(list)); diff != "" {
		t.Error(diff)
	}
	if got := cluster.Unreadable(errors.New(from)); got != nil {
		t.Errorf("not the server's answer: %v", got)
	}
	if got := cluster.Explain(list).Message; got != want[0].Message+" (and 1 more) (the server calls every object that it cannot convert corrupt; "+
		"it is intact: kubectl crdver rescue crontabs.g.example.com)" {
		t.Error(got)
	}
}
