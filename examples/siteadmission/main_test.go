package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func Example() {
	main()
	// Output:
	// kiosk-uid is Failed (LicenseMissing): Pod was rejected: namespace street has no license
	// till-uid is Pending and waits (NodeTooHot): the device is above its limit
	// till-uid is Running
}

// in puts a pod into a namespace.
func in(namespace string) podsynctest.PodOption {
	return func(p *corev1.Pod) { p.Namespace = namespace }
}

// The stages of the site on a whole node, as a site's own test would have it. In
// a bubble of testing/synctest the minute of a Wait costs no time, and Wait of
// synctest returns when the agent has nothing left to do.
func TestOnANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hot := &atomic.Bool{}
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Plan: func(p *podsync.Plan) {
			p.Admit.Before(podsync.StageResources, License{Namespaces: map[string]bool{"shop": true}})
			p.Install(Thermal{Hot: hot})
		}})

		n.Apply(podsynctest.Pod(podsynctest.Named("kiosk"), in("street")))
		st := n.Wait("kiosk-uid", podsynctest.Phase(corev1.PodFailed))
		if st.Reason != "LicenseMissing" || !strings.Contains(st.Message, "namespace street has no license") {
			t.Errorf("rejected with %q: %q", st.Reason, st.Message)
		}
		synctest.Wait()
		n.WaitEvent("kiosk", "LicenseMissing")
		if l := n.Leftovers("kiosk-uid"); len(l) > 0 {
			t.Errorf("the rejected pod left %v", l)
		}

		hot.Store(true)
		n.Apply(podsynctest.Pod(podsynctest.Named("till"), in("shop")))
		n.Wait("till-uid", func(s corev1.PodStatus) bool { return waiting(s).Reason == "NodeTooHot" })
		if c := n.Runtime.Calls().Mutating(); len(c) > 0 {
			t.Errorf("while the pod waited:\n%s", c)
		}
		hot.Store(false)
		n.Node().Bus.Publish(Cooled)
		n.WaitRunning("till-uid")
	})
}

// A container that ends while the device is hot is started again when it has cooled.
func TestRestartWaitsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hot := &atomic.Bool{}
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Plan: func(p *podsync.Plan) { p.Install(Thermal{Hot: hot}) }})
		n.Apply(podsynctest.Pod())
		n.WaitRunning("web-uid")
		hot.Store(true)
		if err := n.Runtime.Exit("web-uid", "app", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if e, _ := n.Agent().Explain("web-uid"); e.Stage != "example.com/thermal" || e.Reason != "NodeTooHot" {
			t.Errorf("while the device is hot: %s", e)
		}
		hot.Store(false)
		n.Node().Bus.Publish(Cooled)
		n.Wait("web-uid", func(s corev1.PodStatus) bool { return s.ContainerStatuses[0].RestartCount == 1 && podsynctest.Ready(s) })
	})
}

func TestLicenseKeepsTheContract(t *testing.T) {
	podsynctest.Stage(t, podsynctest.StageCase{
		New:  func(*testing.T) podsync.Stage { return License{Namespaces: map[string]bool{"default": true}} },
		Want: podsync.KindContinue,
	})
}
