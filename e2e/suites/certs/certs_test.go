// Package certs renews the authority and the certificate of the webhooks while two replicas serve
// requests, and expects that none is refused.
package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "certs", Nodes: 1})
}

// authority is a certificate with its key, as PEM and parsed.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem, keyPEM []byte
}

func issue(t *testing.T, template *x509.Certificate, by *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})}
}

// oldPair is an authority and a certificate of it that have used up most of their time.
func oldPair(t *testing.T, names []string, addresses []net.IP) (*authority, *authority) {
	t.Helper()
	begin, end := time.Now().Add(-24*time.Hour), time.Now().Add(20*time.Minute)
	ca := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "sluice-ca"}, NotBefore: begin, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
	leaf := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, NotBefore: begin, NotAfter: end,
		DNSNames: names, IPAddresses: addresses, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca)
	return ca, leaf
}

// served is the certificate that a replica shows.
func served(address string) (*x509.Certificate, error) {
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address,
		&tls.Config{InsecureSkipVerify: true}) // it is looked at, not trusted
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0], nil
}

func secret(t *testing.T) *corev1.Secret {
	t.Helper()
	found, err := harness.Shared.Kube.CoreV1().Secrets(harness.SystemNamespace).Get(t.Context(), harness.CertificateSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// asker sends requests that need a webhook, and some that need a conversion, until it is stopped.
type asker struct {
	stop  context.CancelFunc
	wait  sync.WaitGroup
	asked atomic.Int64
	mu    sync.Mutex
	bad   []string
}

func startAsking(t *testing.T) *asker {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a := &asker{stop: stop}
	for worker := range 3 {
		a.wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				version := []string{"v1beta2", "v1beta1"}[i%2]
				object := harness.Parsef("{apiVersion: kueue.x-k8s.io/%s, kind: ClusterQueue, metadata: {name: asked-%d}, spec: {}}", version, worker)
				client, err := harness.Shared.Resource(object.GroupVersionKind(), "")
				if err == nil {
					_, err = client.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				}
				a.asked.Add(1)
				if err != nil && ctx.Err() == nil {
					a.mu.Lock()
					a.bad = append(a.bad, time.Now().Format(time.TimeOnly)+" "+err.Error())
					a.mu.Unlock()
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	return a
}

func (a *asker) finish(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "there were enough requests to tell", func() error {
		if asked := a.asked.Load(); asked < 100 {
			return fmt.Errorf("only %d requests were sent", asked)
		}
		return nil
	})
	a.stop()
	a.wait.Wait()
	t.Logf("%d requests", a.asked.Load())
	for i, problem := range a.bad {
		if i == 10 {
			t.Errorf("and %d more", len(a.bad)-i)
			break
		}
		t.Error(problem)
	}
}

func TestFirstCertificates(t *testing.T) {
	c := harness.Shared
	data := secret(t).Data
	for _, key := range []string{"ca.crt", "ca.key", "tls.crt", "tls.key"} {
		if len(data[key]) == 0 {
			t.Errorf("%s is missing in the Secret", key)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data["ca.crt"]) {
		t.Fatal("ca.crt has no certificate")
	}
	leaf, err := served(c.Controller().WebhookAddress)
	if err != nil {
		t.Fatal(err)
	}
	name := "sluice-webhook-service." + harness.SystemNamespace + ".svc"
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
		t.Errorf("the certificate is not good for the Service: %v", err)
	}
	checkInjected(t, data["ca.crt"])

	// What no client of today may use is refused.
	_, err = tls.Dial("tcp", c.Controller().WebhookAddress, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	if err == nil {
		t.Error("TLS 1.1 is accepted")
	}
}

// checkInjected waits until everything that calls a webhook trusts the bundle.
func checkInjected(t *testing.T, bundle []byte) {
	t.Helper()
	c := harness.Shared
	harness.EventuallyWithin(t, 3*harness.Patience, "the bundle is injected", func() error {
		mutating, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), harness.MutatingWebhooks, metav1.GetOptions{})
		if err != nil {
			return err
		}
		validating, err := c.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), harness.ValidatingWebhooks, metav1.GetOptions{})
		if err != nil {
			return err
		}
		bundles := map[string][]byte{}
		for _, webhook := range mutating.Webhooks {
			bundles[webhook.Name] = webhook.ClientConfig.CABundle
		}
		for _, webhook := range validating.Webhooks {
			bundles[webhook.Name] = webhook.ClientConfig.CABundle
		}
		for name, have := range bundles {
			if !bytes.Equal(bytes.TrimSpace(have), bytes.TrimSpace(bundle)) {
				return fmt.Errorf("webhook %s trusts another bundle", name)
			}
		}
		return nil
	})
}

func TestRotation(t *testing.T) {
	c := harness.Shared
	second, err := c.StartController("1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Kill)
	first, err := served(c.Controller().WebhookAddress)
	if err != nil {
		t.Fatal(err)
	}
	leaf, ca := restartWithOldPair(t, first)
	asker := startAsking(t)
	expectNewAuthority(t, leaf, ca)
	checkInjected(t, secret(t).Data["ca.crt"])
	time.Sleep(5 * time.Second) // requests after the last change
	asker.finish(t)
}

// releaseLease spares those that start next the wait for the lease of those that were killed.
func releaseLease(t *testing.T) {
	t.Helper()
	if err := harness.Shared.ReleaseLease(); err != nil {
		t.Fatal(err)
	}
}

// restartWithOldPair ends all replicas and starts them with a certificate that is nearly used up, for
// the names that the one of before had.
func restartWithOldPair(t *testing.T, like *x509.Certificate) (leaf, ca *authority) {
	t.Helper()
	c := harness.Shared
	for _, controller := range c.Controllers() {
		controller.Kill()
	}
	releaseLease(t)
	ca, leaf = oldPair(t, like.DNSNames, like.IPAddresses)
	patched := secret(t)
	patched.Data = map[string][]byte{"ca.crt": ca.pem, "ca.key": ca.keyPEM, "tls.crt": leaf.pem, "tls.key": leaf.keyPEM}
	if _, err := c.Kube.CoreV1().Secrets(harness.SystemNamespace).Update(t.Context(), patched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Both replicas begin with the old pair, in the same instant.
	for _, controller := range c.Controllers() {
		if err := controller.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, controller := range c.Controllers() {
		if err := controller.WaitReady(2 * harness.Patience); err != nil {
			t.Fatal(err)
		}
	}
	harness.EventuallyWithin(t, 2*harness.Patience, "webhooks answer with the old pair", func() error {
		return askOnce(t)
	})
	return leaf, ca
}

// askOnce sends a request that needs the conversion and the webhooks.
func askOnce(t *testing.T) error {
	object := harness.Parse("{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: asked}, spec: {}}")
	client, err := harness.Shared.Resource(object.GroupVersionKind(), "")
	if err == nil {
		_, err = client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	return err
}

// expectNewAuthority waits until no replica shows anything of the old pair.
func expectNewAuthority(t *testing.T, leaf, ca *authority) {
	t.Helper()
	c := harness.Shared
	harness.EventuallyWithin(t, 8*time.Minute, "both replicas serve a certificate of a new authority", func() error {
		roots := x509.NewCertPool()
		roots.AddCert(ca.certificate)
		for _, controller := range c.Controllers() {
			now, err := served(controller.WebhookAddress)
			if err != nil {
				return err
			}
			if now.Equal(leaf.certificate) {
				return fmt.Errorf("replica %s still serves the old one", controller.Name)
			}
			if _, err := now.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
				return fmt.Errorf("replica %s serves a certificate of the old authority", controller.Name)
			}
		}
		return nil
	})
}

func TestLostSecretIsMadeAnew(t *testing.T) {
	c := harness.Shared
	c.Controller().Kill()
	releaseLease(t)
	patched := secret(t)
	before := patched.Data["ca.crt"]
	patched.Data = nil
	if _, err := c.Kube.CoreV1().Secrets(harness.SystemNamespace).Update(t.Context(), patched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "there is a new authority", func() error {
		if now := secret(t).Data["ca.crt"]; len(now) == 0 || bytes.Equal(now, before) {
			return harness.ErrNotYet
		}
		return nil
	})
	checkInjected(t, secret(t).Data["ca.crt"])
	harness.Eventually(t, "webhooks answer", func() error { return askOnce(t) })
}

func TestDamagedSecretIsMadeAnew(t *testing.T) {
	c := harness.Shared
	c.Controller().Kill()
	releaseLease(t)
	patched := secret(t)
	patched.Data["tls.crt"] = []byte("this is no certificate")
	if _, err := c.Kube.CoreV1().Secrets(harness.SystemNamespace).Update(t.Context(), patched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "tls.crt is whole again", func() error {
		if block, _ := pem.Decode(secret(t).Data["tls.crt"]); block == nil {
			return harness.ErrNotYet
		}
		return nil
	})
}
