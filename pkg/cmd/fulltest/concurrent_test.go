//go:build controlplane

package fulltest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func concurrentScenarios() []scenario {
	return []scenario{
		{name: "two servers", run: testTwoServers},
		{name: "deletions", run: testDeletions},
		{name: "dying namespace", run: testDyingNamespace},
		{name: "running in-tree migration", run: testRunningSVM},
	}
}

// balance starts a TCP proxy that leads each connection to the next server.
func balance(t *testing.T, servers ...*rest.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var next atomic.Int64
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			address, err := url.Parse(servers[int(next.Add(1))%len(servers)].Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			go relay(client, address.Host)
		}
	}()
	return "https://" + listener.Addr().String()
}

// relay copies both ways until one side ends.
func relay(client net.Conn, address string) {
	defer client.Close() //nolint:errcheck // there is nobody to tell
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // there is nobody to tell
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// testTwoServers promotes to and fro behind a balancer of two servers, while
// both of them create objects.
func testTwoServers(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "servers.example.com", 40, "v1beta1", "v1")
	other, err := bed.StartAnotherAPIServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Kill)
	if _, err := testbed.WaitForCRD(t.Context(), other.Config(), s.name); err != nil {
		t.Fatal(err)
	}
	config := bed.Config()
	config.Host = balance(t, bed.Config(), other.Config())
	kubeconfig := kubeconfigOf(t, config)
	for round, version := range []string{"v1", "v1beta1", "v1"} {
		writing, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		var written atomic.Int64
		for i, server := range []*rest.Config{bed.Config(), other.Config()} {
			writers.Go(func() { s.write(writing, t, server, fmt.Sprintf("round-%d-server-%d", round, i), &written) })
		}
		r := s.runAs(t, kubeconfig, "promote", version, s.name, "--yes", "-o", "json")
		r.want(t, 0)
		r.steps(t)
		stop()
		writers.Wait()
		counts, err := testbed.CountByVersion(t.Context(), bed.Etcd(), s.group, testbed.CronTabPlural)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d written meanwhile, etcd has %v", round, written.Load(), counts)
		if len(counts) != 1 || counts[version] == 0 || written.Load() == 0 {
			t.Errorf("round %d: etcd has %v", round, counts)
		}
	}
}

// maxWrites keeps a slow machine from falling behind its own writers.
const maxWrites = 200

// write creates objects one after the other until the context ends, or there are
// enough of them.
func (s *subject) write(ctx context.Context, t *testing.T, config *rest.Config, prefix string, written *atomic.Int64) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Error(err)
		return
	}
	for i := 0; i < maxWrites && ctx.Err() == nil; i++ {
		version := []string{"v1", "v1beta1"}[i%2]
		object := s.object(version, "default", fmt.Sprintf("%s-%d", prefix, i), i)
		if _, err := client.Resource(s.at(version)).Namespace("default").Create(context.WithoutCancel(ctx), object, metav1.CreateOptions{}); err != nil {
			t.Errorf("writing %s: %v", object.GetName(), err)
			return
		}
		written.Add(1)
		time.Sleep(40 * time.Millisecond)
	}
}

// testDeletions deletes objects while they are migrated: none comes back.
func testDeletions(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "deletions.example.com", 200, "v1beta1", "v1")
	r := s.runWatched(t, "StepStarted", "migrate", func() {
		for i := 190; i > 0; i -= 10 {
			namespace := []string{"default", "other"}[i%2]
			err := s.objects(t, "v1", namespace).Delete(t.Context(), fmt.Sprintf("object-%06d", i), metav1.DeleteOptions{})
			if err != nil {
				t.Error(err)
			}
		}
	}, "promote", "v1", s.name, "--yes", "--qps", "60", "--concurrency", "4")
	r.want(t, 0, "deleted meanwhile")
	s.stored(t, map[string]int{"v1": 181})
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 181})
}

// testDyingNamespace has objects that a finalizer keeps in a namespace that is
// being deleted: they can be rewritten, and have to be.
func testDyingNamespace(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "dying.example.com", 2, "v1beta1", "v1")
	if err := testbed.CreateNamespaces(t.Context(), bed.Config(), "dying"); err != nil {
		t.Fatal(err)
	}
	objects := s.objects(t, "v1beta1", "dying")
	for i := range 3 {
		object := s.object("v1beta1", "dying", fmt.Sprintf("kept-%d", i), i)
		object.SetFinalizers([]string{"example.com/keep"})
		if _, err := objects.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	namespaces := kubeClient(t, bed).CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), "dying", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the objects are being deleted", 60*time.Second, func() bool {
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		marked := 0
		for _, object := range list.Items {
			if object.GetDeletionTimestamp() != nil {
				marked++
			}
		}
		return marked == 3
	})
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 5})
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 5})
	for i := range 3 {
		_, err := s.objects(t, "v1", "dying").Patch(t.Context(), fmt.Sprintf("kept-%d", i), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Error(err)
		}
	}
	s.stored(t, map[string]int{"v1": 2})
}
