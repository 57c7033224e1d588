package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// proxied returns a rig of the test's own whose agent, not started yet, reaches
// the runtime through a proxy.
func proxied(t *testing.T, args ...string) (*rig, *proxy) {
	t.Helper()
	r := idleRig(t, args...)
	p := newProxy(t, filepath.Join(r.dir, "proxy.sock"), r.Endpoint())
	r.endpoint, r.proxy = p.endpoint, p
	return r, p
}

// small is a pod with an init container and one container.
const small = `
  terminationGracePeriodSeconds: 2
  initContainers: [{name: first, image: $REGISTRY/busybox:1, command: ["true"]}]
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, emptyDir: {medium: Memory}}]
`

// The agent is killed before, during and after each call that it makes while a
// pod starts and while it stops, and started again. The pod ends as if nothing
// had happened, and goes without a trace.
func TestCase_REC_05_AgentKilledAtEveryCall(t *testing.T) {
	for _, moment := range []string{"before", "during", "after"} {
		t.Run(moment, func(t *testing.T) {
			r, p := proxied(t)
			r.begin(t)
			spec := strings.ReplaceAll(small, "name: app, ", `name: app, imagePullPolicy: Always, lifecycle: {postStart: {exec: {command: [sh, -c, "echo x >>/data/hook"]}}}, `)
			r.apply(t, "pull", pod("pull", spec)) // brings the image
			q := r.waitReady(t, "pull")
			r.remove(t, "pull")
			r.waitGone(t, q)
			inStart, inStop := true, true
			for n := 1; (inStart || inStop) && !t.Failed(); n++ {
				name := fmt.Sprintf("pod%d", n)
				cut := func(act func(), over func() error) bool {
					k := &killer{rig: r, moment: moment, at: n, done: make(chan struct{})}
					p.on(k.intercept)
					act()
					r.eventually(t, func() error {
						select {
						case <-k.done:
							return nil
						default:
							return over()
						}
					})
					p.on(nil)
					if !k.killed() {
						return false
					}
					t.Logf("%s: killed %s %s", name, moment, k.victim)
					r.begin(t)
					return true
				}
				if inStart {
					inStart = cut(func() { r.apply(t, name, pod(name, spec)) }, func() error { return r.isReady(t.Context(), name) })
				} else {
					r.apply(t, name, pod(name, spec))
				}
				q := r.waitReady(t, name)
				r.runningOnce(t, q)
				runs := 0
				for _, c := range r.listed(t, q) {
					if c.Metadata.Name == "app" {
						runs++
					}
				}
				if hooks := strings.Count(r.sh(t, q, "app", "cat /data/hook 2>/dev/null || true"), "x"); hooks > runs {
					t.Errorf("%s: the postStart hook ran %d times for %d containers", name, hooks, runs)
				}
				if app := containerStatus(q, "app"); app.RestartCount > 1 {
					t.Errorf("%s: %d restarts", name, app.RestartCount)
				}
				if inStop {
					inStop = cut(func() { r.remove(t, name) }, func() error {
						left, err := r.leftovers(t.Context(), q.UID)
						if err == nil && len(left) > 0 {
							err = fmt.Errorf("left: %s", strings.Join(left, "; "))
						}
						return err
					})
				} else {
					r.remove(t, name)
				}
				r.waitGone(t, q)
			}
		})
	}
}

// isReady tells by an error whether the pod is not ready.
func (r *rig) isReady(ctx context.Context, name string) error {
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if p.Name == name+"-"+nodeName && isReady(p) {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not ready", name)
}

// killer kills a rig's agent at its at-th call from now on.
type killer struct {
	rig    *rig
	moment string
	at     int

	mu     sync.Mutex
	seen   int
	victim call
	done   chan struct{} // closed when the agent is dead
}

func (k *killer) killed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen >= k.at
}

func (k *killer) intercept(ctx context.Context, c call, forward func(context.Context) error) error {
	k.mu.Lock()
	k.seen++
	mine, late := k.seen == k.at, k.seen > k.at
	if mine {
		k.victim = c
	}
	k.mu.Unlock()
	if late {
		<-k.done // a dying agent's
		return errInjected
	}
	if !mine {
		return forward(ctx)
	}
	defer close(k.done)
	switch k.moment {
	case "before":
		k.rig.kill()
		return errInjected
	case "during":
		timer := time.AfterFunc(10*time.Millisecond, k.rig.kill)
		err := forward(ctx) // ends with the agent
		timer.Stop()
		k.rig.kill()
		return err
	default:
		err := forward(context.WithoutCancel(ctx))
		k.rig.kill()
		return err
	}
}

// Each call in turn fails, hangs until its deadline, or loses its reply after it
// was done. Every pod starts and goes nevertheless, and one that stands by is not
// touched.
func TestEveryCallFailsOnce(t *testing.T) {
	for _, kind := range []string{"error", "hang", "reply lost"} {
		t.Run(kind, func(t *testing.T) {
			var args []string
			if kind == "hang" {
				// What times out halfway in a busy containerd can stay there for good.
				args = []string{"--runtime-request-timeout", "8s", "--image-pull-timeout", "8s"}
			}
			r, p := proxied(t, args...)
			r.begin(t)
			r.apply(t, "bystander", pod("bystander", sleeper))
			bystander := r.waitReady(t, "bystander")
			spec := strings.ReplaceAll(small, "name: app, ", "name: app, imagePullPolicy: Always, ")

			// How many calls a pod's life takes.
			r.apply(t, "dry", pod("dry", spec))
			dry := r.waitReady(t, "dry")
			r.remove(t, "dry")
			r.waitGone(t, dry)
			var plan []call // the victims, one a pod
			methods := map[string]bool{}
			for _, c := range p.calls() {
				if c.uid == string(dry.UID) {
					plan, methods[c.method] = append(plan, c), true
				}
			}
			if len(methods) < 8 {
				t.Fatalf("the proxy saw %v in a pod's life", plan)
			}

			var mu sync.Mutex
			victims := map[string]call{} // by UID
			hit := map[string]call{}
			p.on(func(ctx context.Context, c call, forward func(context.Context) error) error {
				mu.Lock()
				victim, is := victims[c.uid]
				if !is && c.uid != "" && c.uid != string(bystander.UID) && len(victims) < len(plan) {
					victim = plan[len(victims)] // the pods get their turns as they come
					victims[c.uid] = victim
				}
				now := victim.method == c.method && victim.nth == c.nth
				if now {
					hit[c.uid] = c
				}
				mu.Unlock()
				switch {
				case !now:
					return forward(ctx)
				case kind == "error":
					return errInjected
				case kind == "hang":
					<-ctx.Done()
					return ctx.Err()
				default:
					if err := forward(context.WithoutCancel(ctx)); err != nil {
						return err
					}
					return errInjected
				}
			})
			pods := map[string]corev1.Pod{}
			for n := range plan {
				name := fmt.Sprintf("pod%d", n+1)
				r.apply(t, name, pod(name, spec))
				pods[name] = corev1.Pod{}
			}
			for name := range pods {
				pods[name] = r.waitReady(t, name)
				r.runningOnce(t, pods[name])
			}
			for name := range pods {
				r.remove(t, name)
			}
			for _, q := range pods {
				r.waitGone(t, q)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, c := range hit {
				delete(methods, c.method)
			}
			delete(methods, "PullImage") // pods that want one image at a time share a pull
			if len(methods) > 0 || len(hit) < len(plan)-3 {
				t.Errorf("%d of %d calls were hit, none of %v", len(hit), len(plan), methods)
			}
			for _, q := range pods {
				if c, ok := hit[string(q.UID)]; ok && !r.complained(q) {
					t.Errorf("no word about %s of pod %s", c, q.Name)
				}
			}
			if q := r.waitReady(t, "bystander"); containerID(q, "app") != containerID(bystander, "app") || containerStatus(q, "app").RestartCount != 0 {
				t.Errorf("the pod that stood by: %s", summary(q))
			}
		})
	}
}

// complained tells whether there is a warning about a pod in the agent's log.
func (r *rig) complained(p corev1.Pod) bool {
	for l := range strings.Lines(r.log.String()) {
		if (strings.Contains(l, "level=WARN") || strings.Contains(l, "level=ERROR") || strings.Contains(l, "kind=Retry")) && (strings.Contains(l, string(p.UID)) || strings.Contains(l, "/"+p.Name)) {
			return true
		}
	}
	return false
}
