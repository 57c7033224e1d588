package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// flags are the program's flags; other programs drive it, so they stay stable.
type flags struct {
	RuntimeEndpoint string
	RuntimeTimeout  time.Duration
	PullTimeout     time.Duration
	Kubeconfig      string
	Manifests       string
	Objects         string
	RootDir         string
	LogsDir         string
	NodeName        string
	NodeIPs         []string
	Labels          map[string]string
	CgroupRoot      string
	CgroupDriver    string
	Listen          string
	TLSCertFile     string
	TLSKeyFile      string
	ClientCAFile    string
	ClusterDNS      []string
	ClusterDomain   string
	Adopt           bool
	Housekeeping    time.Duration
	Verbosity       int
}

func parseFlags(args []string) (flags, error) {
	var f flags
	host, _ := os.Hostname()
	fs := pflag.NewFlagSet("edgeagent", pflag.ContinueOnError)
	fs.StringVar(&f.RuntimeEndpoint, "runtime-endpoint", "", `CRI server, "unix:///path"; "memory" is a runtime inside the process, for trials; default: the first socket of containerd, CRI-O or cri-dockerd that is there`)
	fs.DurationVar(&f.RuntimeTimeout, "runtime-request-timeout", 2*time.Minute, "how long a call to the runtime may take, image pulls and streams apart; a sandbox may take twice as long")
	fs.DurationVar(&f.PullTimeout, "image-pull-timeout", 0, "how long an image pull may take (default: as long as the runtime lets it, which watches for progress)")
	fs.StringVar(&f.Manifests, "manifests", "", "directory of pod manifests, YAML or JSON, one or many documents a file (required without --kubeconfig)")
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "also be a node of this API server: take pods from it and report to it")
	fs.StringVar(&f.Objects, "objects", "", "directory of ConfigMap and Secret manifests that the pods refer to")
	fs.StringVar(&f.RootDir, "root-dir", "/var/lib/podsync", "directory of pod directories, volumes and statuses")
	fs.StringVar(&f.LogsDir, "logs-dir", "", "directory of pod logs (default ROOT-DIR/logs)")
	fs.StringVar(&f.NodeName, "node-name", strings.ToLower(host), "this node's name")
	fs.StringSliceVar(&f.NodeIPs, "node-ip", nil, "this node's addresses, the primary one first")
	fs.StringToStringVar(&f.Labels, "labels", nil, "labels of the node, for node selectors: key=value,…")
	fs.StringVar(&f.CgroupRoot, "cgroup-root", "/", `cgroup below which pods get theirs; "none" gives them none`)
	fs.StringVar(&f.CgroupDriver, "cgroup-driver", "auto", "cgroupfs, systemd, or auto to ask the runtime")
	fs.StringVar(&f.Listen, "listen", "", "address of the HTTP API: the kubelet's paths, /healthz, /metrics, /pods and /explain; with --kubeconfig also /containerLogs, /exec and so on, over TLS and only for those whom the API server allows it (default: none)")
	fs.StringVar(&f.TLSCertFile, "tls-cert-file", "", "certificate of the HTTP API, with --kubeconfig (default: one made at start)")
	fs.StringVar(&f.TLSKeyFile, "tls-private-key-file", "", "its private key")
	fs.StringVar(&f.ClientCAFile, "client-ca-file", "", "authority of client certificates for the HTTP API, beside bearer tokens")
	fs.StringSliceVar(&f.ClusterDNS, "cluster-dns", nil, "name servers of pods with dnsPolicy ClusterFirst")
	fs.StringVar(&f.ClusterDomain, "cluster-domain", "", "domain of the pods' search list")
	fs.BoolVar(&f.Adopt, "adopt", false, "also own pods that a kubelet made in this runtime, to take the node over")
	fs.DurationVar(&f.Housekeeping, "housekeeping", 0, "period of the search for leftovers of unknown pods (default 2m)")
	fs.IntVarP(&f.Verbosity, "v", "v", 0, "log level: at 2 each step of each pod is logged")
	if err := fs.Parse(args); err != nil {
		return f, err
	}
	return f, f.complete()
}

// port is that of the HTTP API, 0 for none.
func (f flags) port() int32 {
	_, p, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return 0
	}
	return int32(n)
}

func (f *flags) complete() error {
	var errs []error
	if (f.TLSCertFile == "") != (f.TLSKeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file come together"))
	}
	if f.Manifests == "" && f.Kubeconfig == "" {
		errs = append(errs, errors.New("--manifests is required, the directory of pod manifests, or --kubeconfig"))
	}
	switch f.CgroupDriver {
	case "auto", "cgroupfs", "systemd":
	default:
		errs = append(errs, fmt.Errorf("--cgroup-driver is %q; it must be auto, cgroupfs or systemd", f.CgroupDriver))
	}
	if f.RuntimeTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--runtime-request-timeout is %s; it must be more than 0", f.RuntimeTimeout))
	}
	for _, p := range []*string{&f.Kubeconfig, &f.TLSCertFile, &f.TLSKeyFile, &f.ClientCAFile, &f.Manifests, &f.Objects, &f.RootDir, &f.LogsDir} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		errs = append(errs, err)
		*p = abs
	}
	if f.LogsDir == "" {
		f.LogsDir = filepath.Join(f.RootDir, "logs")
	}
	return errors.Join(errs...)
}
