package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/metrics"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/node/kubeletapi"
)

// serve serves the HTTP API until ctx ends: the kubelet's, and /explain. In a
// cluster it is over TLS, and the API server says who may ask; without one nobody
// could say so, and there are no logs and no commands.
func serve(ctx context.Context, f flags, n *node.Node, m *metrics.Metrics, cl *membership, log *slog.Logger) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return fmt.Errorf("listen for the HTTP API: %w", err)
	}
	cfg := apiConfig(n, m)
	cfg.Logger = log
	if cl != nil {
		if l, err = cl.guard(f, l, n.CRI(), &cfg); err != nil {
			return err
		}
	}
	h, err := kubeletapi.New(cfg)
	if err != nil {
		return err
	}
	log.Info("HTTP API", "address", l.Addr().String())
	return h.Serve(ctx, l)
}

func apiConfig(n *node.Node, m *metrics.Metrics) kubeletapi.Config {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	return kubeletapi.Config{
		Pods:    n,
		Healthy: n.Runtime.Monitor().Healthy,
		Metrics: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
		More:    map[string]http.Handler{"GET /explain": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { explain(w, r, n) })},
	}
}

// explain says why pods are where they are: all of them, or the one of ?uid=,
// then with its last run stage by stage.
func explain(w http.ResponseWriter, r *http.Request, n *node.Node) {
	uid := r.URL.Query().Get("uid")
	if uid == "" {
		for _, p := range n.Agent().Pods() {
			fmt.Fprintln(w, p.Explanation)
		}
		return
	}
	e, ok := n.Agent().Explain(types.UID(uid))
	if !ok {
		http.Error(w, podsync.ErrUnknownPod.Error(), http.StatusNotFound)
		return
	}
	fmt.Fprintln(w, e)
	if e.Trace != nil {
		fmt.Fprintln(w)
		_ = e.Trace.WriteTable(w)
	}
}
