package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/metrics"
	"github.com/podsync/sdk/podsync/node"
)

// serve serves the HTTP API until ctx ends.
func serve(ctx context.Context, addr string, n *node.Node, m *metrics.Metrics, log *slog.Logger) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for the HTTP API: %w", err)
	}
	srv := &http.Server{Handler: handler(n, m), ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	log.Info("HTTP API", "address", l.Addr().String())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(n *node.Node, m *metrics.Metrics) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := n.Runtime.Monitor().Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(podList(n))
	})
	mux.HandleFunc("GET /explain", func(w http.ResponseWriter, r *http.Request) { explain(w, r, n) })
	return mux
}

// podList is the pods with the statuses that the node gives them.
func podList(n *node.Node) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, p := range n.Agent().Pods() {
		pod := p.Pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		if st, ok := n.Status.Get(pod.UID); ok {
			pod.Status = st
		}
		if g := p.Explanation.State; pod.DeletionTimestamp == nil && (g == "terminating" || g == "cleanup") {
			now := metav1.NewTime(p.Explanation.Since)
			pod.DeletionTimestamp = &now
		}
		list.Items = append(list.Items, *pod)
	}
	return list
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
