package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
)

func TestParseResolvConf(t *testing.T) {
	got, err := config.ParseResolvConf(strings.NewReader("# c\n; c\nnameserver 192.0.2.1\nnameserver\n search old\n" +
		"nameserver 2001:db8::1 # x\nsearch . a.example. b.example\noptions ndots:2 rotate\noptions ndots:3\njunk\n"))
	if err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("error %v", err)
	}
	if d := cmp.Diff(&config.ResolvConf{
		Nameservers: []string{"192.0.2.1", "2001:db8::1"}, Searches: []string{"a.example", "b.example"}, Options: []string{"ndots:3", "rotate"},
	}, got); d != "" {
		t.Error(d)
	}
}

func TestDNS(t *testing.T) {
	host := &config.ResolvConf{Nameservers: []string{"192.0.2.1"}, Searches: []string{"corp.example", "svc.cluster.local"}, Options: []string{"rotate"}}
	cluster := &config.Node{ClusterDNS: []string{"10.0.0.10"}, ClusterDomain: "cluster.local"}
	hostDNS := &runtimeapi.DNSConfig{Servers: host.Nameservers, Searches: host.Searches, Options: host.Options}
	clusterDNS := &runtimeapi.DNSConfig{
		Servers: []string{"10.0.0.10"}, Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"}, Options: []string{"ndots:5"},
	}
	for _, tt := range []struct {
		name     string
		policy   corev1.DNSPolicy
		hostNet  bool
		node     *config.Node
		host     *config.ResolvConf
		config   *corev1.PodDNSConfig
		want     *runtimeapi.DNSConfig
		warnings []string
	}{
		{name: "cluster", policy: corev1.DNSClusterFirst, node: cluster, host: host, want: clusterDNS},
		{name: "not defaulted", node: cluster, host: host, want: clusterDNS},
		{name: "unknown", policy: "Best", node: cluster, host: host, want: clusterDNS, warnings: []string{"DNSConfigForming"}},
		{name: "cluster on host network", policy: corev1.DNSClusterFirst, hostNet: true, node: cluster, host: host, want: hostDNS},
		{name: "cluster with host network", policy: corev1.DNSClusterFirstWithHostNet, hostNet: true, node: cluster, host: host, want: clusterDNS},
		{name: "no domain", policy: corev1.DNSClusterFirst, node: &config.Node{ClusterDNS: []string{"10.0.0.10"}}, host: host,
			want: &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}, Searches: host.Searches, Options: []string{"ndots:5"}}},
		{name: "no cluster DNS", policy: corev1.DNSClusterFirst, host: host, want: hostDNS, warnings: []string{"MissingClusterDNS"}},
		{name: "default", policy: corev1.DNSDefault, node: cluster, host: host, want: hostDNS},
		{name: "default without a file", policy: corev1.DNSDefault, node: &config.Node{IPs: []string{"192.0.2.7", "2001:db8::7"}},
			want: &runtimeapi.DNSConfig{Servers: []string{"127.0.0.1", "::1"}, Searches: []string{"."}}},
		{name: "none", policy: corev1.DNSNone, node: cluster, host: host, want: &runtimeapi.DNSConfig{}},
		{name: "config on top", policy: corev1.DNSClusterFirst, node: cluster, host: host,
			config: &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "10.0.0.10"}, Searches: []string{"my.example", "corp.example"},
				Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr("2")}, {Name: "edns0"}}},
			want: &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10", "1.1.1.1"},
				Searches: append(clusterDNS.Searches[:4:4], "my.example"), Options: []string{"ndots:2", "edns0"}}},
		{name: "too many servers", policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}},
			want: &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3"}}, warnings: []string{"DNSConfigForming"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = tt.policy, tt.hostNet, tt.config
			})
			got, warnings := config.DNS(pod, tt.node, tt.host)
			diff(t, tt.want, got)
			var reasons []string
			for _, w := range warnings {
				reasons = append(reasons, w.Reason)
			}
			if d := cmp.Diff(tt.warnings, reasons); d != "" {
				t.Error(d)
			}
		})
	}
	if d := cmp.Diff([]string{"rotate"}, host.Options); d != "" {
		t.Error("the host's configuration was changed", d)
	}
}

func TestDNSSearchLimits(t *testing.T) {
	var many, long []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("d%d.example", i))
		long = append(long, fmt.Sprintf("%02d.%s", i, strings.Repeat("x", 97)))
	}
	for _, tt := range []struct {
		name string
		in   []string
		want int
	}{
		{"32", many[:32], 32}, {"more", many, 32}, {"2048 characters", long[:20], 20}, {"more characters", long, 20},
		{"one too long", []string{strings.Repeat("x", 254), "ok"}, 1},
	} {
		pod := newPod(func(p *corev1.Pod) {
			p.Spec.DNSPolicy, p.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Searches: tt.in}
		})
		got, warnings := config.DNS(pod, nil, nil)
		if len(got.Searches) != tt.want || (len(warnings) > 0) != (tt.want < len(tt.in)) {
			t.Errorf("%s: %d domains, warnings %v", tt.name, len(got.Searches), warnings)
		}
	}
}
