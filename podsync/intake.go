package podsync

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync/podspec"
)

// sourceAnnotation names the source of a pod, as the kubelet does.
const sourceAnnotation = "kubernetes.io/config.source"

// apiSource is the source whose pods are kept apart by the API server: two pods
// of one full name never meet on a node unless the older was forced away.
const apiSource = "api"

// setSource takes a source's whole set and acts on what changed.
func (a *Agent) setSource(name string, set []*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	src := a.sources[name]
	set = a.acceptLocked(name, src, set)
	changes := Diff(src.pods, set)
	src.pods = make(map[types.UID]*corev1.Pod, len(set))
	for _, p := range set {
		src.pods[p.UID] = p
	}
	for _, c := range changes {
		a.log.Debug("pod source", "op", c.Op, "source", name, "pod", c.Pod.Namespace+"/"+c.Pod.Name, "uid", c.Pod.UID)
		a.applyLocked(name, c)
	}
	if !src.seen {
		src.seen = true
		a.kickAdmission()
		kick(a.tidyNow)
	}
}

// acceptLocked drops pods that no stage may see: invalid ones, and the second
// of a name. An invalid new version of a known pod leaves the last good one.
func (a *Agent) acceptLocked(name string, src *sourceState, set []*corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(set))
	names, uids := map[string]bool{}, map[types.UID]bool{}
	for _, p := range set {
		if p == nil {
			continue
		}
		known := src.pods[p.UID]
		if known != p {
			if err := validated(p); err != nil {
				a.refuseLocked(name, p, err.Error())
				if known == nil {
					continue
				}
				p = known
			}
		}
		full := p.Namespace + "/" + p.Name
		switch w := a.workers[p.UID]; {
		case names[full]:
			a.refuseLocked(name, p, "another pod of the same namespace and name is in the same set; this one is ignored")
		case uids[p.UID]:
			a.refuseLocked(name, p, "another pod of the same UID is in the same set; this one is ignored")
		case known == nil && w != nil && w.source != name && w.source != "" && !w.termination.Deleted:
			a.refuseLocked(name, p, "source "+w.source+" has a pod of the same UID; this one is ignored")
		default:
			names[full], uids[p.UID] = true, true
			out = append(out, p)
		}
	}
	return out
}

func (a *Agent) refuseLocked(source string, p *corev1.Pod, why string) {
	a.log.Warn("pod ignored", "source", source, "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "reason", "FailedValidation", "message", why)
	if a.cfg.Events != nil {
		a.cfg.Events.Event(p, corev1.EventTypeWarning, "FailedValidation", why)
	}
}

// validated checks a pod as it will be once defaulted.
func validated(p *corev1.Pod) error { return podspec.Validate(prepared(p)) }

// prepared returns a private, defaulted copy.
func prepared(p *corev1.Pod) *corev1.Pod {
	c := p.DeepCopy()
	podspec.Default(c)
	return c
}

func (a *Agent) applyLocked(source string, c Change) {
	w := a.workers[c.Pod.UID]
	switch c.Op {
	case OpAdd:
		a.addLocked(source, c.Pod)
	case OpRemove:
		if w == nil {
			return
		}
		w.successor = nil
		a.terminateLocked(w, Termination{Deleted: true}, nil)
	case OpUpdate, OpDelete, OpReconcile:
		if w == nil {
			return
		}
		if w.successor != nil {
			w.successor.pod = c.Pod
			return
		}
		a.updateLocked(w, c)
	}
}

func (a *Agent) updateLocked(w *worker, c Change) {
	a.wantLocked(w, prepared(c.Pod))
	if c.Pod.DeletionTimestamp != nil {
		a.terminateLocked(w, Termination{Deleted: true}, nil)
		return
	}
	if w.state == stateFinished {
		return
	}
	if c.Op == OpUpdate && w.soft != nil && w.state == stateSync {
		w.soft.cancel(ErrSuperseded)
	}
	a.wakeLocked(w, CauseUpdate)
}

func (a *Agent) addLocked(source string, p *corev1.Pod) {
	if w := a.workers[p.UID]; w != nil {
		// The former life of this UID has not ended: it ends first. A leftover
		// that nobody knew is taken over when its removal has not begun.
		if w.pod == nil && !w.busy {
			a.dropLocked(w)
		} else {
			w.successor = &arrived{p, source}
			return
		}
	}
	a.arrivals++
	pod := prepared(p)
	w := &worker{uid: p.UID, pod: pod, want: pod, source: source, fullName: fullName(p), arrival: a.arrivals, since: time.Now()}
	if running, ok := a.restored[p.UID]; ok {
		w.restored, w.ran = true, running
		delete(a.restored, p.UID)
	}
	a.workers[p.UID] = w
	a.turns[w.fullName] = append(a.turns[w.fullName], w)
	if a.turns[w.fullName][0] != w {
		a.log.Info("pod waits for the one of the same name to leave", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "other", a.turns[w.fullName][0].uid)
		w.pending = CauseCreate
		return
	}
	a.beginLocked(w)
}

// fullName is the name by which pods take turns. Pods of the API server are
// told apart by their UID.
func fullName(p *corev1.Pod) string {
	n := p.Namespace + "/" + p.Name
	if p.Annotations[sourceAnnotation] == apiSource {
		n += "/" + string(p.UID)
	}
	return n
}

// beginLocked starts the life of a pod that has its turn.
func (a *Agent) beginLocked(w *worker) {
	switch {
	case w.pod.DeletionTimestamp != nil:
		w.holds = w.ran
		w.state = stateSync // so that what may run of it is stopped
		a.terminateLocked(w, Termination{Deleted: true}, nil)
	case a.ended(w.pod):
		// Its life was over before this process began: it is judged no more, and
		// only stopped in case something of it still runs.
		w.holds = w.ran
		w.state = stateSync
		a.terminateLocked(w, Termination{}, nil)
	default:
		w.state = stateAdmit
		a.wakeLocked(w, CauseCreate)
	}
}

// ended tells whether the pod's life was over before this process began: by its
// source, or by the status that the node gave it. A pod of no API server that was
// refused, and so never ran, is judged anew.
func (a *Agent) ended(p *corev1.Pod) bool {
	terminal := func(ph corev1.PodPhase) bool { return ph == corev1.PodSucceeded || ph == corev1.PodFailed }
	if terminal(p.Status.Phase) {
		return true
	}
	k, ok := a.cfg.Reporter.(StatusKeeper)
	if !ok {
		return false
	}
	st, ok := k.Get(p.UID)
	return ok && terminal(st.Phase) && len(st.ContainerStatuses) > 0
}

// dropLocked forgets a worker and gives its name to the next.
func (a *Agent) dropLocked(w *worker) {
	w.stopTimer()
	if a.workers[w.uid] == w {
		delete(a.workers, w.uid)
	}
	q := a.turns[w.fullName]
	for i := range q {
		if q[i] == w {
			q = append(q[:i:i], q[i+1:]...)
			break
		}
	}
	if len(q) == 0 {
		delete(a.turns, w.fullName)
	} else {
		a.turns[w.fullName] = q
		if q[0].state == stateTurn {
			a.beginLocked(q[0])
		}
	}
	a.roomFreedLocked()
}
