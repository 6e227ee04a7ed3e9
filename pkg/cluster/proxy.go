package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	if errors.As(err, &refused) && status >= http.StatusBadRequest && len(answer) > 0 && !fromServer(result.Error()) {
		return status, contentType, answer, nil // The webhook's own answer.
	}
	if err != nil {
		return status, contentType, answer, fmt.Errorf("calling service %s/%s through the API server: %w", namespace, name, err)
	}
	return status, contentType, answer, nil
}

// fromServer reports whether an error is a Status that an API server wrote, and
// not the answer of what is behind its proxy.
func fromServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Kind == "Status"
}
