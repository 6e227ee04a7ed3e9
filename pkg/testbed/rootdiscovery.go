package testbed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// aggregatedJSON asks for the aggregated discovery document.
const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// withRootDiscovery serves /apis, which on a whole control plane the aggregator
// does from the same manager: without it kubectl knows no resource at all.
func withRootDiscovery(next http.Handler, manager discoveryendpoint.ResourceManager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case strings.TrimSuffix(req.URL.Path, "/") != "/apis":
			next.ServeHTTP(w, req)
		case strings.Contains(req.Header.Get("Accept"), "as=APIGroupDiscoveryList"):
			manager.ServeHTTP(w, req)
		default:
			serveGroups(w, req, manager)
		}
	})
}

// serveGroups answers with the older document, the list of groups.
func serveGroups(w http.ResponseWriter, req *http.Request, manager discoveryendpoint.ResourceManager) {
	ask := req.Clone(req.Context())
	ask.Header.Set("Accept", aggregatedJSON)
	ask.Header.Del("Accept-Encoding")
	answer := buffer{header: http.Header{}}
	manager.ServeHTTP(&answer, ask)
	var aggregated apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(answer.Bytes(), &aggregated); err != nil {
		http.Error(w, fmt.Sprintf("decoding aggregated discovery: %v", err), http.StatusInternalServerError)
		return
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, item := range aggregated.Items {
		group := metav1.APIGroup{Name: item.Name}
		for _, version := range item.Versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
				GroupVersion: item.Name + "/" + version.Version, Version: version.Version,
			})
		}
		if len(group.Versions) > 0 {
			group.PreferredVersion = group.Versions[0]
		}
		list.Groups = append(list.Groups, group)
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that went away needs no answer.
	_ = json.NewEncoder(w).Encode(list)
}

// buffer keeps a response.
type buffer struct {
	bytes.Buffer

	header http.Header
}

func (b *buffer) Header() http.Header { return b.header }

func (b *buffer) WriteHeader(int) {}
