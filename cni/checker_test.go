package cni_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/cni/cnitest"
	"github.com/podsync/sdk/podsync"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRuntime answers as set.
type fakeRuntime struct {
	mu     sync.Mutex
	answer *runtimeapi.RuntimeStatus
	err    error
	hang   bool
	calls  int
}

func (f *fakeRuntime) Status(ctx context.Context, _ bool) (*runtimeapi.StatusResponse, error) {
	f.mu.Lock()
	f.calls++
	answer, err, hang := f.answer, f.err, f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &runtimeapi.StatusResponse{Status: answer}, err
}

func (f *fakeRuntime) set(ready bool) { f.change(network(ready), nil, false) }

func (f *fakeRuntime) change(answer *runtimeapi.RuntimeStatus, err error, hang bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.err, f.hang = answer, err, hang
}

func (f *fakeRuntime) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func network(ready bool) *runtimeapi.RuntimeStatus {
	c := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: ready}
	if !ready {
		c.Reason, c.Message = "NetworkPluginNotReady", "cni plugin not initialized"
	}
	return &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{{Type: runtimeapi.RuntimeReady, Status: true}, c}}
}

func TestFromRuntimeConforms(t *testing.T) {
	cnitest.Checker(t, func(t *testing.T, bus *podsync.Bus) (cni.Checker, func(bool)) {
		f := &fakeRuntime{answer: network(false)}
		return &cni.FromRuntime{Runtime: f, Period: 5 * time.Millisecond, RetryPeriod: 5 * time.Millisecond, Bus: bus}, f.set
	})
}

func TestFromDirConforms(t *testing.T) {
	cnitest.Checker(t, func(t *testing.T, bus *podsync.Bus) (cni.Checker, func(bool)) {
		conf, bin := filepath.Join(t.TempDir(), "not", "there", "yet"), t.TempDir()
		for _, p := range []string{"bridge", "host-local", "portmap"} {
			plugin(t, bin, p)
		}
		file := filepath.Join(conf, "10-x.conflist")
		set := func(ready bool) {
			if !ready {
				_ = os.Remove(file)
				return
			}
			if err := os.MkdirAll(conf, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, file, bridge)
		}
		return &cni.FromDir{ConfDir: conf, BinDirs: []string{bin}, RetryPeriod: 10 * time.Millisecond, Bus: bus}, set
	})
}

func plugin(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFromRuntimeAnswers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  *runtimeapi.RuntimeStatus
		err     error
		ready   bool
		reason  string
		message string
	}{
		{name: "ready", answer: network(true), ready: true},
		{name: "not ready", answer: network(false), reason: "NetworkPluginNotReady", message: "cni plugin not initialized"},
		{name: "no answer yet", err: errors.New("connection refused"), reason: cni.ReasonUnknown, message: "connection refused"},
		{name: "no condition", answer: &runtimeapi.RuntimeStatus{}, reason: cni.ReasonNotReady, message: "NetworkReady"},
		{name: "no status", reason: cni.ReasonNotReady, message: "NetworkReady"},
		{name: "no reason", answer: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{{Type: runtimeapi.NetworkReady}}},
			reason: cni.ReasonNotReady, message: "gives no reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &cni.FromRuntime{Runtime: &fakeRuntime{answer: tt.answer, err: tt.err}}
			if s := c.Status(); s.Ready || s.Reason != cni.ReasonUnknown {
				t.Errorf("before the first answer: %+v", s)
			}
			ready, reason, message := c.Ready(t.Context())
			if ready != tt.ready || reason != tt.reason || !strings.Contains(message, tt.message) {
				t.Errorf("Ready: %v, %q, %q", ready, reason, message)
			}
		})
	}
	if ready, _, message := (&cni.FromRuntime{}).Ready(t.Context()); ready || !strings.Contains(message, "Runtime is not set") {
		t.Errorf("with no runtime: %v, %q", ready, message)
	}
	if err := (&cni.FromRuntime{}).Run(t.Context()); err == nil {
		t.Error("Run with no runtime gave no error")
	}
}

func TestFromRuntimeKeepsStateWhileRuntimeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRuntime{answer: network(true)}
		c := &cni.FromRuntime{Runtime: f, Timeout: 2 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		f.change(nil, errors.New("connection refused"), false)
		time.Sleep(time.Minute)
		if s := c.Status(); !s.Ready || len(s.Problems) != 1 {
			t.Errorf("while the runtime refuses: %+v", s)
		}
		f.change(nil, nil, true)
		time.Sleep(time.Minute)
		if s := c.Status(); !s.Ready || len(s.Problems) != 1 {
			t.Errorf("while the runtime hangs: %+v", s)
		}
		f.set(true)
		time.Sleep(10 * time.Second)
		if s := c.Status(); !s.Ready || len(s.Problems) != 0 {
			t.Errorf("when the runtime is back: %+v", s)
		}
		calls := f.count()
		time.Sleep(time.Minute)
		if got := f.count() - calls; got < 11 || got > 13 {
			t.Errorf("%d questions in a minute of a ready network, want one in 5 s", got)
		}
		f.set(false)
		time.Sleep(6 * time.Second)
		calls = f.count()
		time.Sleep(time.Minute)
		if got := f.count() - calls; got < 59 || got > 61 {
			t.Errorf("%d questions in a minute without a network, want one a second", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestCase_NET_08_HostNetworkDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := podsync.NewBus()
		var woken []time.Time
		start := time.Now()
		defer bus.Subscribe(func(topic podsync.Topic, uids []types.UID) {
			if topic == podsync.TopicNetworkReady && len(uids) == 0 {
				woken = append(woken, time.Now())
			}
		})()
		f := &fakeRuntime{answer: network(false)}
		c := &cni.FromRuntime{Runtime: f, Bus: bus}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		stage := cni.Ready(c)
		h, p := podsync.NewSync(pod("h", true)), podsync.NewSync(pod("p", false))
		for time.Since(start) < time.Minute {
			if out := stage.Run(ctx, h); out.Kind() != podsync.KindSkip || out.Reason() != "HostNetwork" {
				t.Fatalf("host-network pod: %v", out)
			}
			out := stage.Run(ctx, p)
			if d, ok := out.RetryAfter(); out.Kind() != podsync.KindWait || out.Reason() != "NetworkNotReady" || !ok || d != time.Second ||
				len(out.Wake()) != 1 || out.Wake()[0] != podsync.TopicNetworkReady || !strings.Contains(out.Message(), "cni plugin not initialized") {
				t.Fatalf("pod on the pod network: %v", out)
			}
			time.Sleep(time.Second)
		}
		f.set(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(woken) != 1 || woken[0].Sub(start) > 62*time.Second {
			t.Errorf("woken at %v", woken)
		}
		if out := stage.Run(ctx, p); out.Kind() != podsync.KindContinue {
			t.Errorf("after the flip: %v", out)
		}
		cancel()
		<-done
	})
}

// An outage does not keep the containers of a pod that has its network from
// being restarted.
func TestOutageSparesConnectedPods(t *testing.T) {
	sandbox := func(ready bool) []*podsync.RuntimeSandbox { return []*podsync.RuntimeSandbox{{Ready: ready}} }
	for _, tt := range []struct {
		name    string
		runtime *podsync.RuntimePod
		want    podsync.Kind
	}{
		{"new", nil, podsync.KindWait},
		{"ready with address", &podsync.RuntimePod{Sandboxes: sandbox(true), IPs: []string{"10.0.0.1"}}, podsync.KindContinue},
		{"ready without address", &podsync.RuntimePod{Sandboxes: sandbox(true)}, podsync.KindWait},
		{"dead sandbox", &podsync.RuntimePod{Sandboxes: sandbox(false), IPs: []string{"10.0.0.1"}}, podsync.KindWait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stage := cni.Ready(&cni.FromRuntime{Runtime: &fakeRuntime{answer: network(false)}})
			if stage.Name() != podsync.StageNetwork {
				t.Errorf("name %q", stage.Name())
			}
			out := stage.Run(t.Context(), podsync.NewSync(pod("p", false), podsync.WithRuntimePod(tt.runtime)))
			if out.Kind() != tt.want {
				t.Errorf("outcome %v, want %v", out, tt.want)
			}
		})
	}
}

func TestAlwaysReady(t *testing.T) {
	if out := cni.Ready(cni.AlwaysReady{}).Run(t.Context(), podsync.NewSync(pod("p", false))); out.Kind() != podsync.KindContinue {
		t.Errorf("outcome %v", out)
	}
}

func TestFromDirNamesMissingPlugin(t *testing.T) {
	conf, bin := t.TempDir(), t.TempDir()
	write(t, filepath.Join(conf, "10-x.conflist"), bridge)
	write(t, filepath.Join(conf, "05-broken.conflist"), `{`)
	plugin(t, bin, "bridge")
	plugin(t, bin, "host-local")
	if err := os.WriteFile(filepath.Join(bin, "portmap"), nil, 0o644); err != nil { // not executable
		t.Fatal(err)
	}
	c := &cni.FromDir{ConfDir: conf, BinDirs: []string{bin}, RetryPeriod: time.Nanosecond}
	ready, reason, message := c.Ready(t.Context())
	if ready || reason != cni.ReasonNoPlugin || !strings.Contains(message, "portmap") || !strings.Contains(message, "10-x.conflist") || strings.Contains(message, "bridge,") {
		t.Errorf("Ready: %v, %s, %q", ready, reason, message)
	}
	if err := os.Chmod(filepath.Join(bin, "portmap"), 0o755); err != nil {
		t.Fatal(err)
	}
	if ready, _, message := c.Ready(t.Context()); !ready {
		t.Errorf("Ready: %q", message)
	}
	if s := c.Status(); s.Network != "pods" || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "05-broken.conflist") {
		t.Errorf("Status: %+v", s)
	}
}

// With Run, a change is noticed by its event, long before the next look.
func TestFromDirSeesEvents(t *testing.T) {
	conf, bin := t.TempDir(), t.TempDir()
	plugin(t, bin, "ptp")
	bus := podsync.NewBus()
	woken := make(chan struct{}, 1)
	defer bus.Subscribe(func(podsync.Topic, []types.UID) { woken <- struct{}{} })()
	c := &cni.FromDir{ConfDir: conf, BinDirs: []string{bin}, Period: time.Hour, RetryPeriod: time.Hour, Bus: bus}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for c.Status().Since.IsZero() {
		time.Sleep(time.Millisecond)
	}
	write(t, filepath.Join(conf, "10-x.conf"), `{"name":"n","type":"ptp"}`)
	select {
	case <-woken:
	case <-time.After(5 * time.Second):
		t.Error("the new file was not noticed")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func pod(uid types.UID, hostNetwork bool) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid},
		Spec:       corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func BenchmarkReadyStage(b *testing.B) {
	stage := cni.Ready(&cni.FromRuntime{Runtime: &fakeRuntime{answer: network(true)}, Period: time.Hour})
	s := podsync.NewSync(pod("p", false))
	b.ReportAllocs()
	for b.Loop() {
		if out := stage.Run(b.Context(), s); out.Kind() != podsync.KindContinue {
			b.Fatal(out)
		}
	}
}
