package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/etcd"
)

// TestCompactionMeanwhile: the revision that pages are read at goes away.
func TestCompactionMeanwhile(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	client := server.Client()
	for i := range 300 { // Of which a page holds 83.
		put(t, client, fmt.Sprintf("/registry/example.com/widgets/a/%d", i), "{"+strings.Repeat(" ", 50_000)+widget("v1")[1:])
	}
	compact := func() {
		put(t, client, "/registry/example.com/widgets/a/1", widget("v2"))
		now, err := client.Get(t.Context(), "/")
		if err == nil {
			_, err = client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct{ compactions, begun int }{{2, 3}, {100, 4}} {
		left := test.compactions
		visitor := &meddler{visit: func(seen int) {
			if seen == 20 && left > 0 {
				left--
				compact()
			}
		}}
		live := openLive(t, etcd.LiveOptions{Endpoints: []string{server.Endpoint()}})
		err := live.Scan(t.Context(), []schema.GroupResource{widgets()}, visitor)
		switch {
		case visitor.begun != test.begun:
			t.Errorf("%d compactions: it began %d times, %v", test.compactions, visitor.begun, err)
		case test.compactions == 2 && (err != nil || visitor.seen != 300 || visitor.versions["example.com/v2"] != 1):
			t.Errorf("%d objects, %v, %v", visitor.seen, visitor.versions, err)
		case test.compactions > 2 && (err == nil || !strings.Contains(err.Error(), "read a snapshot")):
			// An error, not too little.
			t.Errorf("%v", err)
		}
	}
}

// meddler does something while objects are read.
type meddler struct {
	begun, seen int
	versions    map[string]int
	visit       func(seen int)
}

func (m *meddler) Begin(schema.GroupResource, int64) {
	m.begun, m.seen, m.versions = m.begun+1, 0, map[string]int{}
}

func (m *meddler) Visit(object etcd.Object) {
	m.seen++
	m.versions[etcd.ReadHead(object.Value).APIVersion]++
	m.visit(m.seen)
}

// TestLargeObjects: pages stay within bounds where objects are large.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	for i := range 60 {
		put(t, server.Client(), fmt.Sprintf("/registry/example.com/widgets/a/%d", i), "{"+strings.Repeat(" ", 100_000)+widget("v1")[1:])
	}
	options := etcd.LiveOptions{Endpoints: []string{server.Endpoint()}}
	wantCounts(t, openLive(t, options.WithMaxPageBytes(500_000)), widgets(), "v1: 60")
	// One that is larger than any may be is no reason to leave it out.
	if _, err := counts(t.Context(), openLive(t, options.WithMaxPageBytes(50_000)), widgets()); err == nil || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("%v", err)
	}
}

// TestMembers: another one is asked where one does not answer.
func TestMembers(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	putMany(t, server.Client(), 10)
	wantCounts(t, openLive(t, etcd.LiveOptions{Endpoints: []string{"http://127.0.0.1:1", server.Endpoint()}}), widgets(), "v1: 9, v1beta1: 1")
	_, err := counts(t.Context(), openLive(t, etcd.LiveOptions{Endpoints: []string{"http://127.0.0.1:1"}}), widgets())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	for _, endpoint := range []string{"", "ftp://a:1", "https://a", "https://user:secret@a:1", "http://a:1/path"} {
		if _, err := etcd.OpenLive(etcd.LiveOptions{Endpoints: []string{endpoint}}); err == nil {
			t.Errorf("%q was taken", endpoint)
		}
	}
}

// TestTLSAndPasswords: an etcd as clusters run it, and one that also wants a user.
func TestTLSAndPasswords(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts an etcd")
	}
	dir := t.TempDir()
	ca, cert, key := certificates(t, dir)
	port := freePort(t)
	endpoint := url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "data")
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer")}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: ca, ClientCertAuth: true}
	config.UnsafeNoFsync, config.TickMs, config.ElectionMs = true, 10, 50
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	tls, err := transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: ca}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint.String()}, TLS: tls, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	putMany(t, client, 10)

	options := etcd.LiveOptions{Endpoints: []string{endpoint.String()}, CAFile: ca, CertFile: cert, KeyFile: key}
	wantCounts(t, openLive(t, options), widgets(), "v1: 9, v1beta1: 1")
	bare := options
	bare.Endpoints = []string{endpoint.Host} // There are certificates: it is TLS.
	wantCounts(t, openLive(t, bare), widgets(), "v1: 9, v1beta1: 1")
	for what, change := range map[string]func(*etcd.LiveOptions){
		"certificate": func(o *etcd.LiveOptions) { o.CertFile, o.KeyFile = "", "" },
		"unknown authority": func(o *etcd.LiveOptions) {
			o.CAFile, _, _ = certificates(t, t.TempDir())
		},
		"tls": func(o *etcd.LiveOptions) { o.Endpoints = []string{"http://" + endpoint.Host} },
	} {
		wrong := options
		change(&wrong)
		live := openLive(t, wrong)
		if _, err := counts(t.Context(), live, widgets()); err == nil {
			t.Errorf("without the right %s it was read", what)
		} else if what != "tls" && !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, got %v", what, err)
		}
	}

	enablePasswords(t, client)
	if _, err := counts(t.Context(), openLive(t, options), widgets()); err == nil {
		t.Error("it was read without a password")
	}
	options.User, options.Password = "root", "wrong"
	if _, err := counts(t.Context(), openLive(t, options), widgets()); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	}
	options.Password = "secret"
	wantCounts(t, openLive(t, options), widgets(), "v1: 9, v1beta1: 1")
}

func enablePasswords(t *testing.T, client *clientv3.Client) {
	t.Helper()
	if _, err := client.UserAdd(t.Context(), "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGrantRole(t.Context(), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // Nobody connected.
	return listener.Addr().(*net.TCPAddr).Port
}

// certificates writes a certificate that signs itself and is good for everything.
func certificates(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "somebody"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, cert, key
}
