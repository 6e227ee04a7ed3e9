package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PostToService implements [Interface].
func (c *Cluster) PostToService(ctx context.Context, namespace, name string, port int32, path string, body []byte) (status int, contentType string, answer []byte, err error) {
	// "https:" tells the server's proxy to speak TLS; it checks no certificate.
	service := fmt.Sprintf("https:%s:%d", name, port)
	result := c.raw.Post().AbsPath("api", "v1", "namespaces", namespace, "services", service, "proxy").
		Suffix(path).
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json, */*").
		MaxRetries(0).
		Body(body).
		Do(ctx).
		StatusCode(&status).
		ContentType(&contentType)
	answer, err = result.Raw()
	var refused apierrors.APIStatus
	if errors.As(err, &refused) && status >= http.StatusBadRequest && len(answer) > 0 && !fromServer(answer) {
		return status, contentType, answer, nil // The webhook's own answer.
	}
	if code, ok := withoutBody(err, answer); ok {
		return code, contentType, nil, nil
	}
	if err != nil {
		if said := result.Error(); said != nil {
			err = said // It has the words of the server.
		}
		return status, contentType, answer, fmt.Errorf("calling service %s/%s through the API server: %w", namespace, name, plain(err))
	}
	return status, contentType, answer, nil
}

// withoutBody returns the status of an answer whose content type the client does
// not know: it keeps nothing but the status of those that say failure. The API
// server's own failures are JSON, save for those about who calls it.
func withoutBody(err error, answer []byte) (int, bool) {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) || len(answer) > 0 || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return 0, false
	}
	code := int(refused.Status().Code)
	return code, code >= http.StatusBadRequest
}

// fromServer reports whether an answer that says failure is a Status that an API
// server wrote, and not the answer of what is behind its proxy. The client's own
// decoder drops the kind, and makes a Status of anything.
func fromServer(answer []byte) bool {
	var status metav1.Status
	return json.Unmarshal(answer, &status) == nil && status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure
}
