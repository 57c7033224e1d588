// Package controlplane runs a private control plane for tests: etcd and
// kube-apiserver, and if asked for kube-controller-manager and kube-scheduler, on
// loopback, with everything they keep in one directory.
//
// The programs are those that tools/build-cluster.sh builds.
package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podsync/sdk/internal/realruntime"
)

// Config says what to start. Bin and Dir are required.
type Config struct {
	// Bin holds the programs; Dir is where everything is kept.
	Bin, Dir string
	// Controllers and Scheduler start kube-controller-manager and kube-scheduler.
	Controllers, Scheduler bool
	// Nodes are the names of nodes that get a token; see Token.
	Nodes []string
	// KubeletNames are the host names that the API server reaches on 127.0.0.1 as
	// kubelets, if it is to: it then runs in a mount namespace with a hosts file of
	// its own.
	KubeletNames []string
}

// Cluster is a running control plane. Its methods are for one goroutine at a
// time.
type Cluster struct {
	// URL is the API server's, CA the file of the authority that signed its
	// certificate.
	URL, CA string

	cfg       Config
	pki       *PKI
	etcdPort  string
	peerPort  string
	apiPort   string
	etcd, api *realruntime.Process
	others    []*realruntime.Process
	logs      []io.Closer
}

// adminToken and those of Token are good for this cluster only, which nobody
// else reaches.
const adminToken = "admin-token"

// Token is the bearer token of a node named in Config.Nodes.
func Token(node string) string { return "node-token-" + node }

// Programs are the names that Bin has to have.
func Programs() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
}

// Start starts the control plane and waits until the API server is ready. On an
// error everything that was started is stopped.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	for _, p := range Programs() {
		if _, err := os.Stat(filepath.Join(cfg.Bin, p)); err != nil {
			return nil, fmt.Errorf("controlplane: %w; make cluster builds it", err)
		}
	}
	c := &Cluster{cfg: cfg}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if c.pki, err = NewPKI(filepath.Join(cfg.Dir, "pki"), cfg.KubeletNames...); err != nil {
		return nil, err
	}
	ports, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	c.etcdPort, c.peerPort, c.apiPort = ports[0], ports[1], ports[2]
	c.URL, c.CA = "https://127.0.0.1:"+c.apiPort, c.pki.File("ca.crt")
	if err := c.writeTokens(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return nil, err
	}
	admin, err := c.AdminKubeconfig()
	if err != nil {
		return nil, err
	}
	if cfg.Controllers {
		err = c.startOther("kube-controller-manager", "--kubeconfig="+admin, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+ports[3],
			"--cert-dir="+filepath.Join(cfg.Dir, "kcm"), "--use-service-account-credentials=false",
			"--controllers=serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller,namespace-controller,garbage-collector-controller,pod-garbage-collector-controller,daemonset-controller,deployment-controller,replicaset-controller,job-controller,endpointslice-controller,disruption-controller,node-lifecycle-controller",
			"--root-ca-file="+c.CA, "--service-account-private-key-file="+c.pki.File("sa.key"))
	}
	if err == nil && cfg.Scheduler {
		err = c.startOther("kube-scheduler", "--kubeconfig="+admin, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+ports[4],
			"--cert-dir="+filepath.Join(cfg.Dir, "sched"))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) writeTokens() error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s,admin,admin,\"system:masters\"\n", adminToken)
	for _, n := range c.cfg.Nodes {
		fmt.Fprintf(&b, "%s,system:node:%s,node-%s,\"system:nodes\"\n", Token(n), n, n)
	}
	if err := os.WriteFile(filepath.Join(c.cfg.Dir, "tokens.csv"), []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("controlplane: %w", err)
	}
	return nil
}

func (c *Cluster) startEtcd() error {
	client, peer := "http://127.0.0.1:"+c.etcdPort, "http://127.0.0.1:"+c.peerPort
	p, err := c.start("etcd", "--data-dir="+filepath.Join(c.cfg.Dir, "etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync")
	c.etcd = p
	return err
}

// StartAPIServer starts the API server, and waits until it is ready: after
// StopAPIServer once more, with the objects of before.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	args := []string{
		"--etcd-servers=http://127.0.0.1:" + c.etcdPort, "--bind-address=127.0.0.1", "--secure-port=" + c.apiPort,
		"--tls-cert-file=" + c.pki.File("apiserver.crt"), "--tls-private-key-file=" + c.pki.File("apiserver.key"),
		"--client-ca-file=" + c.CA, "--cert-dir=" + filepath.Join(c.cfg.Dir, "apiserver"),
		"--token-auth-file=" + filepath.Join(c.cfg.Dir, "tokens.csv"), "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--service-account-issuer=" + c.URL,
		"--service-account-key-file=" + c.pki.File("sa.pub"), "--service-account-signing-key-file=" + c.pki.File("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none", "--allow-privileged=true",
		"--kubelet-certificate-authority=" + c.CA, "--kubelet-client-certificate=" + c.pki.File("apiserver-kubelet.crt"),
		"--kubelet-client-key=" + c.pki.File("apiserver-kubelet.key"), "--kubelet-preferred-address-types=Hostname",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false",
	}
	path := filepath.Join(c.cfg.Bin, "kube-apiserver")
	var err error
	if len(c.cfg.KubeletNames) > 0 {
		hosts := filepath.Join(c.cfg.Dir, "hosts")
		if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost "+strings.Join(c.cfg.KubeletNames, " ")+"\n"), 0o644); err != nil {
			return fmt.Errorf("controlplane: %w", err)
		}
		c.api, err = c.startAs("kube-apiserver", "unshare", append([]string{"-m", "sh", "-c",
			`mount --bind "$1" /etc/hosts && shift && exec "$@"`, "sh", hosts, path}, args...)...)
	} else {
		c.api, err = c.startAs("kube-apiserver", path, args...)
	}
	if err != nil {
		return err
	}
	return c.waitReady(ctx, 60*time.Second)
}

// StopAPIServer ends the API server; etcd keeps its objects.
func (c *Cluster) StopAPIServer() {
	if c.api != nil {
		c.api.Kill()
		c.api = nil
	}
}

// Stop ends everything. The directory is left to the caller.
func (c *Cluster) Stop() {
	for _, p := range c.others {
		p.Kill()
	}
	c.StopAPIServer()
	if c.etcd != nil {
		c.etcd.Kill()
	}
	for _, f := range c.logs {
		_ = f.Close() // a log of a program that has ended
	}
	c.others, c.etcd, c.logs = nil, nil, nil
}

// Log returns the end of what a program wrote.
func (c *Cluster) Log(name string) string {
	b, err := os.ReadFile(filepath.Join(c.cfg.Dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(len(b)-4000, 0):])
}

// PKI is the cluster's certificates.
func (c *Cluster) PKI() *PKI { return c.pki }

// AdminToken is the bearer token of a user who may do everything.
func (*Cluster) AdminToken() string { return adminToken }

// AdminKubeconfig writes a kubeconfig of a user who may do everything.
func (c *Cluster) AdminKubeconfig() (string, error) { return c.Kubeconfig("admin", adminToken) }

// Kubeconfig writes a kubeconfig for the token and returns its path.
func (c *Cluster) Kubeconfig(name, token string) (string, error) {
	path := filepath.Join(c.cfg.Dir, name+".kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {server: %q, certificate-authority: %q}
users:
- name: user
  user: {token: %q}
contexts:
- name: test
  context: {cluster: test, user: user}
current-context: test
`, c.URL, c.CA, token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("controlplane: %w", err)
	}
	return path, nil
}

func (c *Cluster) startOther(name string, args ...string) error {
	p, err := c.start(name, args...)
	if err == nil {
		c.others = append(c.others, p)
	}
	return err
}

func (c *Cluster) start(name string, args ...string) (*realruntime.Process, error) {
	return c.startAs(name, filepath.Join(c.cfg.Bin, name), args...)
}

// startAs starts a program whose output goes to DIR/NAME.log.
func (c *Cluster) startAs(name, path string, args ...string) (*realruntime.Process, error) {
	log, err := os.OpenFile(filepath.Join(c.cfg.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("controlplane: %w", err)
	}
	c.logs = append(c.logs, log)
	p, err := realruntime.StartProcess(realruntime.ProcessSpec{Path: path, Args: args, Stdout: log, Stderr: log})
	if err != nil {
		return nil, fmt.Errorf("controlplane: start %s: %w", name, err)
	}
	return p, nil
}

// waitReady waits until the API server serves and its default objects exist.
func (c *Cluster) waitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		return fmt.Errorf("controlplane: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 2 * time.Second}
	last := errors.New("not asked yet")
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("controlplane: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+adminToken)
		if resp, err := client.Do(req); err != nil {
			last = err
		} else {
			body, _ := io.ReadAll(resp.Body) // only shown
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			last = fmt.Errorf("readyz answers %s: %s", resp.Status, body)
		}
		select {
		case <-c.api.Done():
			return fmt.Errorf("controlplane: kube-apiserver ended: %w; the end of its log:\n%s", c.api.Err(), c.Log("kube-apiserver"))
		case <-ctx.Done():
			return fmt.Errorf("controlplane: the API server is not ready: %w", last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freePorts finds loopback ports that nobody listens on at the moment.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("controlplane: find a port: %w", err)
		}
		defer l.Close() //nolint:errcheck // all are held until the last is found
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("controlplane: find a port: %w", err)
		}
		ports = append(ports, port)
	}
	return ports, nil
}
