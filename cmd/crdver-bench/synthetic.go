package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// synthetic is a server of made-up objects, each with 2 KB of annotations. It
// answers what the engine asks, and stores nothing. What it shows is the memory of
// a client; how fast a client is, it does not show.
type synthetic struct {
	server  *httptest.Server
	count   int64
	encoder runtime.Encoder
}

func startSynthetic(ctx context.Context, count int64) (*synthetic, error) {
	scheme := runtime.NewScheme()
	s := &synthetic{count: count, encoder: protobuf.NewSerializer(scheme, scheme)}
	prefix := "/apis/" + testbed.CronTabGroup + "/" + newVersion + "/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+prefix+testbed.CronTabPlural, s.list)
	mux.HandleFunc("PATCH "+prefix+"namespaces/{namespace}/"+testbed.CronTabPlural+"/{name}", s.patch)
	s.server = httptest.NewUnstartedServer(mux)
	s.server.EnableHTTP2 = true
	s.server.StartTLS()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("starting the server of made-up objects: %w", err)
	}
	return s, nil
}

func (s *synthetic) config() *rest.Config {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return &rest.Config{Host: s.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate}}
}

func (s *synthetic) close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// list answers a page. The continue token is the number of objects before it.
func (s *synthetic) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := strconv.ParseInt(query.Get("limit"), 10, 64)
	if err != nil {
		http.Error(w, "only pages are answered", http.StatusBadRequest)
		return
	}
	begin := int64(0)
	if token := query.Get("continue"); token != "" {
		if begin, err = strconv.ParseInt(token, 10, 64); err != nil {
			http.Error(w, "this is no token of this server", http.StatusBadRequest)
			return
		}
	}
	end := min(begin+limit, s.count)
	page := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for i := begin; i < end; i++ {
		page.Items = append(page.Items, made(fmt.Sprintf("object-%07d", i), i+1))
	}
	page.ResourceVersion = strconv.FormatInt(s.count, 10)
	if left := s.count - end; left > 0 {
		page.Continue, page.RemainingItemCount = strconv.FormatInt(end, 10), &left
	}
	s.answer(w, page)
}

// patch answers that the object was rewritten.
func (s *synthetic) patch(w http.ResponseWriter, r *http.Request) {
	object := made(path.Base(r.URL.Path), s.count+1)
	s.answer(w, &object)
}

func made(name string, version int64) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: strconv.FormatInt(version, 10),
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 2048)},
		},
	}
}

func (s *synthetic) answer(w http.ResponseWriter, object runtime.Object) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	if err := s.encoder.Encode(object, w); err != nil {
		panic(http.ErrAbortHandler) // The client went away, or sees a cut answer.
	}
}
