package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/node/cluster"
	"github.com/podsync/sdk/podsync/node/kubeletapi"
	"github.com/podsync/sdk/podsync/objects"
)

// membership is the node's part in the cluster of --kubeconfig.
type membership struct {
	*cluster.Cluster
	client *kubeclient.Client
}

// join makes the node one of the cluster; nil without --kubeconfig.
func join(f flags, cfg *node.Config, runtimeVersion string, log *slog.Logger) (*membership, error) {
	if f.Kubeconfig == "" {
		return nil, nil
	}
	rest, err := clientcmd.BuildConfigFromFlags("", f.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", f.Kubeconfig, err)
	}
	m := &membership{}
	if m.client, err = kubeclient.New(rest); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", f.Kubeconfig, err)
	}
	if len(cfg.IPs) == 0 {
		cfg.IPs = addressTowards(rest.Host)
	}
	near := cfg.Objects
	cfg.Objects = nil
	if m.Cluster, err = cluster.New(cluster.Config{Client: m.client, Node: cfg, Port: f.port(), RuntimeVersion: runtimeVersion, Logger: log}); err != nil {
		return nil, err
	}
	if near != nil {
		// Objects of this node's directory come before the cluster's.
		cfg.Objects = objects.Chain{near, podsync.Objects(m.Objects)}
	}
	return m, nil
}

// addressTowards is this machine's address on the way to the API server, none if
// there is no way.
func addressTowards(host string) []string {
	u, err := url.Parse(host)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	c, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))) // sends nothing
	if err != nil {
		return nil
	}
	defer c.Close()
	ip, _, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		return nil
	}
	return []string{ip}
}

// guard puts TLS on the listener and lets the API server say who may ask what.
func (m *membership) guard(f flags, l net.Listener, rt internalapi.RuntimeService, cfg *kubeletapi.Config) (net.Listener, error) {
	cert, err := f.certificate()
	if err != nil {
		return nil, err
	}
	v := &cluster.Reviewer{Client: m.client, Node: f.NodeName}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if f.ClientCAFile != "" {
		pem, err := os.ReadFile(f.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		v.ClientCAs = x509.NewCertPool()
		if !v.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--client-ca-file %s: no certificate in it", f.ClientCAFile)
		}
		conf.ClientAuth = tls.RequestClientCert // verified by v, so that tokens go too
	}
	cfg.Authenticator, cfg.Authorizer = v, v
	cfg.Runtime, cfg.Logs = rt, kubeletapi.CRILogs{Root: f.LogsDir, Runtime: rt}
	return tls.NewListener(l, conf), nil
}

// certificate is that of --tls-cert-file, or one that is made now and that nobody
// has signed, as the kubelet's.
func (f flags) certificate() (tls.Certificate, error) {
	if f.TLSCertFile != "" {
		c, err := tls.LoadX509KeyPair(f.TLSCertFile, f.TLSKeyFile)
		if err != nil {
			return c, fmt.Errorf("--tls-cert-file: %w", err)
		}
		return c, nil
	}
	var ips []net.IP
	for _, ip := range f.NodeIPs {
		ips = append(ips, net.ParseIP(ip))
	}
	crt, key, err := cert.GenerateSelfSignedCertKey(f.NodeName, ips, []string{"localhost"})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.X509KeyPair(crt, key)
}
