package critest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"
)

const (
	ready    = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

func version(k *kit) {
	v, err := k.rt.Version(k.Context(), "v1")
	k.must("Version", err)
	if v.RuntimeName == "" || v.RuntimeVersion == "" || v.RuntimeApiVersion != "v1" {
		k.Errorf("Version: %+v; it must name the runtime, its version and API version v1", v)
	}
}

// readiness: both conditions are there, in a runtime that works they are true.
func readiness(k *kit) {
	r, err := k.rt.Status(k.Context(), false)
	k.must("Status", err)
	for _, want := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		i := slices.IndexFunc(r.GetStatus().GetConditions(), func(c *runtimeapi.RuntimeCondition) bool { return c.Type == want })
		if i < 0 || !r.Status.Conditions[i].Status {
			k.Errorf("condition %s is missing or false: %v", want, r.GetStatus().GetConditions())
		}
	}
}

func sandboxLife(k *kit) {
	p := k.pod()
	id := k.sandbox(p)
	s := k.sandboxStatus(id)
	if s.Id != id || s.State != ready || s.CreatedAt <= 0 {
		k.Errorf("a new sandbox: %+v", s)
	}
	if ip := s.GetNetwork().GetIp(); ip == "" {
		k.Error("a sandbox with a network of its own has no address")
	} else if _, err := netip.ParseAddr(ip); err != nil {
		k.Errorf("address of the sandbox: %v", err)
	}
	for range 2 {
		k.must("StopPodSandbox", k.rt.StopPodSandbox(k.Context(), id))
		if s := k.sandboxStatus(id); s.State != notReady || s.CreatedAt <= 0 {
			k.Errorf("after StopPodSandbox: %+v", s)
		}
	}
	for range 2 {
		k.must("RemovePodSandbox", k.rt.RemovePodSandbox(k.Context(), id))
		if _, err := k.rt.PodSandboxStatus(k.Context(), id, false); !crierrors.IsNotFound(err) {
			k.Errorf("PodSandboxStatus after RemovePodSandbox: %v, want NotFound", err)
		}
		if l := k.sandboxes(&runtimeapi.PodSandboxFilter{Id: id}); len(l) != 0 {
			k.Errorf("ListPodSandbox after RemovePodSandbox: %v", l)
		}
	}
	if err := k.rt.StopPodSandbox(k.Context(), id); err != nil && !crierrors.IsNotFound(err) {
		k.Errorf("StopPodSandbox of a sandbox that is gone: %v, want nil or NotFound", err)
	}
}

// sandboxVerbatim: all state of the SDK lives in metadata, labels and
// annotations; the runtime returns them as they were.
func sandboxVerbatim(k *kit) {
	p := k.pod()
	p.Metadata.Attempt = 3
	p.Labels["app.kubernetes.io/name"] = "web"
	p.Labels["empty"] = ""
	p.Annotations = map[string]string{
		"kubernetes.io/config.source": "file", "kubernetes.io/config.seen": "2026-03-01T12:00:00.000000001Z",
		"example.com/json": `{"a":"b\n","c":["ä",""]}`, "example.com/lines": "one\ntwo\t three ", "example.com/empty": "",
	}
	id := k.sandbox(p)
	s := k.sandboxStatus(id)
	l := k.sandboxes(&runtimeapi.PodSandboxFilter{Id: id})
	if len(l) != 1 {
		k.Fatalf("ListPodSandbox by id: %v", l)
	}
	for _, got := range []struct {
		call                string
		labels, annotations map[string]string
		metadata            *runtimeapi.PodSandboxMetadata
	}{
		{"PodSandboxStatus", s.Labels, s.Annotations, s.Metadata},
		{"ListPodSandbox", l[0].Labels, l[0].Annotations, l[0].Metadata},
	} {
		if d := cmp.Diff(p.Labels, got.labels); d != "" {
			k.Errorf("labels of %s (-want +got):\n%s", got.call, d)
		}
		if d := cmp.Diff(p.Annotations, got.annotations); d != "" {
			k.Errorf("annotations of %s (-want +got):\n%s", got.call, d)
		}
		if d := cmp.Diff(p.Metadata.String(), got.metadata.String()); d != "" {
			k.Errorf("metadata of %s (-want +got):\n%s", got.call, d)
		}
	}
	if l[0].CreatedAt != s.CreatedAt || l[0].State != s.State {
		k.Errorf("list and status differ: %+v, %+v", l[0], s)
	}
}

func sandboxHostNetwork(k *kit) {
	if k.b.NoHostNetwork {
		k.Log("left out: the backend has no host network")
		return
	}
	p := k.pod()
	p.Hostname = ""
	p.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	s := k.sandboxStatus(k.sandbox(p))
	if s.State != ready || s.GetNetwork().GetIp() != "" {
		k.Errorf("a sandbox in the host's network: state %v, network %v; it has no address of its own", s.State, s.Network)
	}
	if n := s.GetLinux().GetNamespaces().GetOptions().GetNetwork(); n != runtimeapi.NamespaceMode_NODE {
		k.Errorf("network namespace of the status is %v, want NODE", n)
	}
}

// sandboxName: a reply that was lost must not lead to a second sandbox.
func sandboxName(k *kit) {
	p := k.pod()
	id := k.sandbox(p)
	again := func(when string) {
		k.Helper()
		if other, err := k.rt.RunPodSandbox(k.Context(), p, ""); err == nil {
			k.drop(other)
			k.Errorf("RunPodSandbox with the same metadata while the first one %s gave another sandbox", when)
		}
	}
	again("is ready")
	k.must("StopPodSandbox", k.rt.StopPodSandbox(k.Context(), id))
	again("is stopped")
	if s := k.sandboxStatus(id); s.State != notReady {
		k.Errorf("the refused call changed the first sandbox to %v", s.State)
	}
	next := k.pod()
	*next.Metadata = runtimeapi.PodSandboxMetadata{Name: p.Metadata.Name, Namespace: p.Metadata.Namespace, Uid: p.Metadata.Uid, Attempt: 1}
	if second := k.sandbox(next); second == id {
		k.Error("another attempt has the id of the first")
	}
	k.must("RemovePodSandbox", k.rt.RemovePodSandbox(k.Context(), id))
	if third := k.sandbox(p); third == id {
		k.Error("an id was used again")
	}
}

func (k *kit) sandboxes(f *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	k.Helper()
	l, err := k.rt.ListPodSandbox(k.Context(), f)
	k.must("ListPodSandbox", err)
	return l
}

func sandboxFilters(k *kit) {
	a, b, c := k.pod(), k.pod(), k.pod()
	for _, p := range []*runtimeapi.PodSandboxConfig{a, b, c} {
		p.Labels["part"] = k.run
	}
	a.Labels["tier"], b.Labels["tier"] = "front", "back"
	names := map[string]string{k.sandbox(a): "a", k.sandbox(b): "b"}
	gone := k.sandbox(c)
	names[gone] = "c"
	k.must("StopPodSandbox", k.rt.StopPodSandbox(k.Context(), gone))
	part := map[string]string{"part": k.run}
	for _, tt := range []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		want   string
	}{
		{"none", nil, "a b c"},
		{"empty", &runtimeapi.PodSandboxFilter{}, "a b c"},
		{"label", &runtimeapi.PodSandboxFilter{LabelSelector: part}, "a b c"},
		{"two labels", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"part": k.run, "tier": "back"}}, "b"},
		{"pod uid", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": a.Metadata.Uid}}, "a"},
		{"label nobody has", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"part": k.run, "tier": "none"}}, ""},
		{"ready", &runtimeapi.PodSandboxFilter{LabelSelector: part, State: &runtimeapi.PodSandboxStateValue{State: ready}}, "a b"},
		{"not ready", &runtimeapi.PodSandboxFilter{LabelSelector: part, State: &runtimeapi.PodSandboxStateValue{State: notReady}}, "c"},
		{"id", &runtimeapi.PodSandboxFilter{Id: gone}, "c"},
		{"id and state", &runtimeapi.PodSandboxFilter{Id: gone, State: &runtimeapi.PodSandboxStateValue{State: ready}}, ""},
		{"unknown id", &runtimeapi.PodSandboxFilter{Id: strings.Repeat("0", 64)}, ""},
	} {
		var got []string
		for _, s := range k.sandboxes(tt.filter) {
			if n, ok := names[s.Id]; ok || tt.filter != nil && tt.filter.String() != "" {
				got = append(got, n)
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(tt.want, strings.Join(got, " ")); d != "" {
			k.Errorf("ListPodSandbox, %s (-want +got):\n%s", tt.name, d)
		}
	}
}

// sandboxTakesContainers: what is stopped and removed with a sandbox.
func sandboxTakesContainers(k *kit) {
	p := k.pod()
	sandbox := k.sandbox(p)
	runs := k.start(sandbox, k.container("runs", k.b.Run...), p)
	created := k.create(sandbox, k.container("created", k.b.Run...), p)
	k.must("StopPodSandbox", k.rt.StopPodSandbox(k.Context(), sandbox))
	if s := k.status(runs); s.State != exited || s.FinishedAt == 0 {
		k.Errorf("a container after StopPodSandbox: %v", s)
	}
	if s := k.status(created); s.State == running {
		k.Errorf("a created container after StopPodSandbox: %v", s.State)
	}
	k.must("RemovePodSandbox", k.rt.RemovePodSandbox(k.Context(), sandbox))
	for _, id := range []string{runs, created} {
		if _, err := k.rt.ContainerStatus(k.Context(), id, false); !crierrors.IsNotFound(err) {
			k.Errorf("ContainerStatus after RemovePodSandbox: %v, want NotFound", err)
		}
	}
	if l := k.containers(&runtimeapi.ContainerFilter{LabelSelector: map[string]string{"part": k.run}}); len(l) != 0 {
		k.Errorf("ListContainers after RemovePodSandbox: %s", ids(l))
	}
}

func ids(l []*runtimeapi.Container) string {
	out := make([]string, len(l))
	for i, c := range l {
		out[i] = fmt.Sprintf("%s(%s)", c.GetMetadata().GetName(), c.Id)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
