package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// life watches the runs of pods and reports what may never happen.
type life struct {
	mu     sync.Mutex
	faults []string
	busy   map[types.UID]bool
	phase  map[types.UID]podsync.Phase // of the current life; "" between lives
	grace  map[types.UID]time.Duration
	admit  int // pods in admission at once
}

func (l *life) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

var rank = map[podsync.Phase]int{"": 0, podsync.PhaseAdmit: 1, podsync.PhaseSync: 2, podsync.PhaseTerminating: 3, podsync.PhaseTerminated: 4}

func (l *life) enter(ph podsync.Phase, s *podsync.Sync) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid := s.UID()
	if l.busy[uid] {
		l.fault("two runs of %s at once", uid)
	}
	l.busy[uid] = true
	if rank[ph] < rank[l.phase[uid]] {
		l.fault("%s went back from %s to %s", uid, l.phase[uid], ph)
	}
	l.phase[uid] = ph
	if ph == podsync.PhaseAdmit {
		if l.admit++; l.admit > 1 {
			l.fault("two pods are admitted at once")
		}
	}
	if ph == podsync.PhaseTerminating {
		if g, ok := l.grace[uid]; ok && s.Grace() > g {
			l.fault("grace of %s grew from %v to %v", uid, g, s.Grace())
		}
		if s.Grace() < time.Second {
			l.fault("grace of %s is %v", uid, s.Grace())
		}
		l.grace[uid] = s.Grace()
	}
}

func (l *life) leave(ph podsync.Phase, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[uid] = false
	if ph == podsync.PhaseAdmit {
		l.admit--
	}
}

// Remove is the end of a life: podsync.Cleaner.
func (l *life) Remove(_ context.Context, uid types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[uid] {
		l.fault("%s is cleaned up while it runs", uid)
	}
	delete(l.phase, uid)
	delete(l.grace, uid)
	return nil
}
func (l *life) Name() string                              { return "life" }
func (l *life) Pods(context.Context) ([]types.UID, error) { return nil, nil }

// Whatever sources, kills, topics and stages do, and in whatever order: one run
// of a pod at a time, phases only forward, grace only shrinks, and in the end
// the pods are what the sources last said.
func TestAgentProperties(t *testing.T) {
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; checks > propertyChecks {
			return
		}
		type step struct {
			what, pod, n int
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 6).Draw(rt, "what"), rapid.IntRange(0, 3).Draw(rt, "pod"), rapid.IntRange(0, 9).Draw(rt, "n")}
		}), 1, 40).Draw(rt, "steps")
		outcomes := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 30).Draw(rt, "outcomes")
		synctest.Test(t, func(t *testing.T) {
			l := &life{busy: map[types.UID]bool{}, phase: map[types.UID]podsync.Phase{}, grace: map[types.UID]time.Duration{}}
			calm := false // in the end every stage goes well
			k := 0
			watched := func(ph podsync.Phase) *podsync.Builder {
				return podsync.NewBuilder(ph).Append(podsync.NewStage("watched", func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
					l.enter(ph, s)
					defer l.leave(ph, s.UID())
					l.mu.Lock()
					k++
					o := outcomes[k%len(outcomes)]
					if calm {
						o = 0
					}
					l.mu.Unlock()
					select {
					case <-time.After(time.Duration(o) * 100 * time.Millisecond):
					case <-ctx.Done():
						return podsync.FromErr(ctx.Err())
					}
					switch o {
					case 1:
						return podsync.Retry(errors.New("boom"))
					case 2:
						return podsync.Wait(time.Minute, "W", "w").WakeOn("T")
					case 3:
						if ph == podsync.PhaseSync {
							return podsync.Continue().Again(time.Second)
						}
					case 4:
						panic("boom")
					}
					return podsync.Continue()
				}))
			}
			src := newFeed("file")
			cfg := podsync.Config{
				Sources: []podsync.Source{src}, Cleaners: []podsync.Cleaner{l},
				Plan: &podsync.Plan{Admit: watched(podsync.PhaseAdmit), Sync: watched(podsync.PhaseSync), Terminating: watched(podsync.PhaseTerminating), Terminated: watched(podsync.PhaseTerminated)},
			}
			a, err := podsync.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- a.Run(ctx) }()

			pods, killed := map[int]*corev1.Pod{}, map[int]bool{}
			put := func() {
				var set []*corev1.Pod
				for _, p := range pods {
					set = append(set, p)
				}
				src.Set(set...)
			}
			for _, st := range steps {
				p, known := pods[st.pod]
				switch st.what {
				case 0, 1: // add, or a new version
					n := podsynctest.Pod(podsynctest.Named(fmt.Sprint("p", st.pod)))
					n.Labels = map[string]string{"v": fmt.Sprint(st.n)}
					if known && p.DeletionTimestamp != nil {
						continue
					}
					pods[st.pod] = n
				case 2: // remove
					delete(pods, st.pod)
					killed[st.pod] = false
				case 3: // delete gracefully
					if !known {
						continue
					}
					d := p.DeepCopy()
					podsynctest.Deleting(time.Now(), time.Duration(st.n*10)*time.Second)(d)
					pods[st.pod] = d
				case 4:
					a.Bus().Publish("T")
				case 5:
					time.Sleep(time.Duration(st.n*st.n) * 100 * time.Millisecond)
				case 6:
					kctx, stop := context.WithCancel(ctx)
					stop()
					if known && p.DeletionTimestamp == nil {
						if err := a.Kill(kctx, p.UID, podsync.KillOptions{Evicted: true}); !errors.Is(err, podsync.ErrUnknownPod) {
							killed[st.pod] = true
						}
					}
					continue
				}
				put()
				if st.n%2 == 0 {
					synctest.Wait()
				}
			}
			l.mu.Lock()
			calm = true
			l.mu.Unlock()
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			for i := range 4 {
				uid := types.UID(fmt.Sprintf("p%d-uid", i))
				e, known := a.Explain(uid)
				p, wanted := pods[i]
				switch {
				case !wanted && known:
					l.fault("%s is gone from its source and still there: %v", uid, e)
				case !wanted:
				case p.DeletionTimestamp != nil:
					if known && e.State != "cleanup" && e.State != "finished" {
						l.fault("%s is deleted and %v", uid, e)
					}
				case !known:
					l.fault("%s is wanted and not there", uid)
				case killed[i] && e.State != "finished" && e.State != "sync", !killed[i] && e.State != "sync":
					l.fault("%s is wanted, killed %v, and %v", uid, killed[i], e)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, f := range l.faults {
				t.Error(f)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}
