package controlplane

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
	"os"
	"path/filepath"
	"time"
)

// PKI is an authority and what it signed, as PEM files in one directory.
type PKI struct {
	dir    string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewPKI makes, in dir, ca.crt, the API server's certificate (apiserver.crt, .key), the one that it shows to
// kubelets (apiserver-kubelet), a serving certificate for each kubelet's name (kubelet-NAME), and the key of
// service accounts (sa.key, sa.pub).
func NewPKI(dir string, kubelets ...string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("controlplane: %w", err)
	}
	p := &PKI{dir: dir}
	if err := p.authority(); err != nil {
		return nil, fmt.Errorf("controlplane: make certificates: %w", err)
	}
	err := p.Issue("apiserver", pkix.Name{CommonName: "kube-apiserver"}, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err == nil {
		err = p.Issue("apiserver-kubelet", pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}})
	}
	for _, k := range kubelets {
		if err == nil {
			err = p.Issue("kubelet-"+k, pkix.Name{CommonName: "system:node:" + k, Organization: []string{"system:nodes"}}, k, "127.0.0.1")
		}
	}
	if err == nil {
		err = p.serviceAccounts()
	}
	if err != nil {
		return nil, fmt.Errorf("controlplane: make certificates: %w", err)
	}
	return p, nil
}

// File is the path of a file of the directory.
func (p *PKI) File(name string) string { return filepath.Join(p.dir, name) }

func (p *PKI) authority() (err error) {
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: p.next(), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &p.key.PublicKey, p.key)
	if err != nil {
		return err
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return p.write("ca.crt", "CERTIFICATE", der)
}

func (p *PKI) next() *big.Int {
	p.serial++
	return big.NewInt(p.serial)
}

// Issue signs a certificate for client and server use, with the names and addresses, and writes NAME.crt and
// NAME.key.
func (p *PKI) Issue(name string, subject pkix.Name, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: p.next(), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, p.ca, &key.PublicKey, p.key)
	if err != nil {
		return err
	}
	if err := p.write(name+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return p.writeKey(name+".key", key)
}

func (p *PKI) serviceAccounts() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := p.write("sa.pub", "PUBLIC KEY", pub); err != nil {
		return err
	}
	return p.writeKey("sa.key", key)
}

func (p *PKI) writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return p.write(file, "EC PRIVATE KEY", der)
}

func (p *PKI) write(file, kind string, der []byte) error {
	return os.WriteFile(p.File(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
