// Siteadmission adds two admission stages of a site to the standard ones: one
// that refuses pods, and one that lets them wait for an event. It runs them on a
// node in memory and prints what happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/source"
)

// License refuses pods of namespaces that have no license.
type License struct{ Namespaces map[string]bool }

// Name has the site's domain, so that it collides with nobody's.
func (License) Name() string { return "example.com/license" }

// Run is asked once per pod, before anything of it is made.
func (l License) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if ns := s.Pod().Namespace; !l.Namespaces[ns] {
		return podsync.Reject("LicenseMissing", "namespace %s has no license", ns)
	}
	return podsync.Continue()
}

// Cooled is published when the device is cool enough again.
const Cooled podsync.Topic = "example.com/Cooled"

// Thermal lets pods wait while the device is too hot. It is a Component: the
// same check also stands before containers are started again.
type Thermal struct{ Hot *atomic.Bool }

// Install puts the check into two phases.
func (t Thermal) Install(p *podsync.Plan) {
	check := podsync.NewStage("example.com/thermal", func(context.Context, *podsync.Sync) podsync.Outcome {
		if t.Hot.Load() {
			return podsync.Wait(time.Minute, "NodeTooHot", "the device is above its limit").WakeOn(Cooled)
		}
		return podsync.Continue()
	})
	p.Admit.Before(podsync.StageResources, check)
	p.Sync.Before(podsync.StageRuntime, check)
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "siteadmission:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	root, err := os.MkdirTemp("", "siteadmission")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	pods := &source.Memory{}
	n, err := node.New(node.Config{Runtime: rt, Images: rt, Root: root, Unprivileged: true, Sources: []podsync.Source{pods}})
	if err != nil {
		return err
	}
	hot := &atomic.Bool{}
	hot.Store(true)
	n.Plan.Admit.Before(podsync.StageResources, License{Namespaces: map[string]bool{"shop": true}})
	n.Plan.Install(Thermal{Hot: hot})

	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-done) }()

	pods.Set(pod("street", "kiosk"), pod("shop", "till"))
	show := func(uid types.UID, until func(corev1.PodStatus) bool) {
		st, waitErr := n.Status.Wait(ctx, uid, until)
		err = errors.Join(err, waitErr)
		line := fmt.Sprintf("%s is %s", uid, st.Phase)
		if w := waiting(st); w.Reason != "" {
			line += fmt.Sprintf(" and waits (%s): %s", w.Reason, w.Message)
		} else if st.Reason != "" {
			line += fmt.Sprintf(" (%s): %s", st.Reason, st.Message)
		}
		fmt.Fprintln(out, line)
	}
	show("kiosk-uid", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodFailed })
	show("till-uid", func(s corev1.PodStatus) bool { return waiting(s).Reason == "NodeTooHot" })
	hot.Store(false)
	n.Bus.Publish(Cooled)
	show("till-uid", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	return err
}

// waiting is what the pod's first container waits for.
func waiting(s corev1.PodStatus) (w corev1.ContainerStateWaiting) {
	if len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Waiting != nil {
		w = *s.ContainerStatuses[0].State.Waiting
	}
	return w
}

func pod(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1"}}}}
	p.Namespace, p.Name, p.UID = namespace, name, types.UID(name+"-uid")
	return p
}
