package critest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"
)

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
	unknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN
)

// killed is the exit code of what SIGKILL ended.
const killed = 137

func containerLife(k *kit) {
	p := k.pod()
	sandbox := k.sandbox(p)
	before := time.Now()
	c := k.container("main", k.b.Run...)
	id := k.create(sandbox, c, p)
	s := k.status(id)
	if s.Id != id || s.State != created || s.StartedAt != 0 || s.FinishedAt != 0 || s.ExitCode != 0 {
		k.Errorf("a created container: %v; it was neither started nor has it ended", s)
	}
	if at := time.Unix(0, s.CreatedAt); at.Before(before.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
		k.Errorf("createdAt is %v, not in nanoseconds since 1970 about now", at)
	}
	createdAt := s.CreatedAt
	k.must("StartContainer", k.rt.StartContainer(k.Context(), id))
	if s = k.status(id); s.State != running || s.CreatedAt != createdAt || s.StartedAt < createdAt || s.FinishedAt != 0 {
		k.Errorf("a started container: %v", s)
	}
	if s.ImageRef == "" || s.GetImage().GetImage() == "" {
		k.Errorf("a started container says nothing of its image: %v", s)
	}
	startedAt := s.StartedAt
	if err := k.rt.StartContainer(k.Context(), id); err == nil {
		k.Error("StartContainer of a running container gave no error")
	}
	time.Sleep(k.b.Settle)
	k.must("StopContainer", k.rt.StopContainer(k.Context(), id, 20))
	s = k.status(id)
	if s.State != exited || s.CreatedAt != createdAt || s.StartedAt != startedAt || s.FinishedAt < startedAt || s.Reason == "" {
		k.Errorf("a stopped container: %v; it must be exited, with its times and a reason", s)
	}
	if s.ExitCode == killed {
		k.Error("a container that ends at SIGTERM was killed within its grace")
	}
	if err := k.rt.StartContainer(k.Context(), id); err == nil {
		k.Error("StartContainer of an exited container gave no error")
	}
	for range 2 {
		k.must("RemoveContainer", k.rt.RemoveContainer(k.Context(), id))
		if _, err := k.rt.ContainerStatus(k.Context(), id, false); !crierrors.IsNotFound(err) {
			k.Errorf("ContainerStatus after RemoveContainer: %v, want NotFound", err)
		}
	}
	if st := k.sandboxStatus(sandbox); st.State != ready {
		k.Errorf("the sandbox is %v although only its container is gone", st.State)
	}
}

// containerVerbatim: the keys are the kubelet's own, whose values the SDK reads
// back after a restart.
func containerVerbatim(k *kit) {
	p := k.pod()
	sandbox := k.sandbox(p)
	c := k.container("main", k.b.Run...)
	c.Metadata.Attempt = 7
	for n, v := range p.Labels {
		c.Labels[n] = v
	}
	c.Annotations = map[string]string{
		"io.kubernetes.container.hash": "f00dcafe", "io.kubernetes.container.restartCount": "7",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
		"io.kubernetes.container.preStopHandler":           `{"exec":{"command":["sh","-c","echo \"bye\"\n"]}}`,
		"io.kubernetes.container.ports":                    `[{"containerPort":80,"protocol":"TCP"}]`,
		"example.com/empty":                                "", "example.com/text": "ä\n\t z ",
	}
	id := k.create(sandbox, c, p)
	s := k.status(id)
	l := k.containers(&runtimeapi.ContainerFilter{Id: id})
	if len(l) != 1 || l[0].PodSandboxId != sandbox || l[0].State != created || l[0].CreatedAt != s.CreatedAt {
		k.Fatalf("ListContainers by id: %v", l)
	}
	for _, got := range []struct {
		call                string
		labels, annotations map[string]string
		metadata            *runtimeapi.ContainerMetadata
	}{
		{"ContainerStatus", s.Labels, s.Annotations, s.Metadata},
		{"ListContainers", l[0].Labels, l[0].Annotations, l[0].Metadata},
	} {
		if d := cmp.Diff(c.Labels, got.labels); d != "" {
			k.Errorf("labels of %s (-want +got):\n%s", got.call, d)
		}
		if d := cmp.Diff(c.Annotations, got.annotations); d != "" {
			k.Errorf("annotations of %s (-want +got):\n%s", got.call, d)
		}
		if d := cmp.Diff(c.Metadata.String(), got.metadata.String()); d != "" {
			k.Errorf("metadata of %s (-want +got):\n%s", got.call, d)
		}
	}
	if want := filepath.Join(p.LogDirectory, c.LogPath); s.LogPath != want {
		k.Errorf("logPath is %q, want %q", s.LogPath, want)
	}
}

func containerExits(k *kit) {
	for _, tt := range []struct {
		code   int
		reason string
	}{{0, "Completed"}, {3, "Error"}} {
		id, sandbox := k.started(k.b.Exit(tt.code)...)
		s := k.becomes(id, exited)
		// containerd takes the time of the start when the call is done: a short
		// container may have finished before.
		if s.ExitCode != int32(tt.code) || s.Reason != tt.reason || s.StartedAt < s.CreatedAt || s.FinishedAt < s.CreatedAt {
			k.Errorf("after an end with code %d: %v, want reason %s and both times after the creation", tt.code, s, tt.reason)
		}
		if st := k.sandboxStatus(sandbox); st.State != ready {
			k.Errorf("the sandbox ended with its container")
		}
	}
}

func containerName(k *kit) {
	p := k.pod()
	sandbox := k.sandbox(p)
	c := k.container("main", k.b.Run...)
	id := k.create(sandbox, c, p)
	for _, when := range []string{"created", "exited"} {
		if other, err := k.rt.CreateContainer(k.Context(), sandbox, c, p); err == nil {
			k.Errorf("a second container of one name and attempt while the first is %s: %s", when, other)
		}
		if when == "created" {
			k.must("StartContainer", k.rt.StartContainer(k.Context(), id))
			k.must("StopContainer", k.rt.StopContainer(k.Context(), id, 20))
		}
	}
	next := k.container("main", k.b.Run...)
	next.Metadata.Attempt = 1
	k.create(sandbox, next, p)
	k.must("RemoveContainer", k.rt.RemoveContainer(k.Context(), id))
	if again := k.create(sandbox, c, p); again == id {
		k.Error("an id was used again")
	}
}

func (k *kit) containers(f *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	k.Helper()
	l, err := k.rt.ListContainers(k.Context(), f)
	k.must("ListContainers", err)
	return l
}

func containerFilters(k *kit) {
	p, q := k.pod(), k.pod()
	first, second := k.sandbox(p), k.sandbox(q)
	a := k.start(first, k.container("a", k.b.Run...), p)
	b := k.create(first, k.container("b", k.b.Run...), p)
	c := k.start(second, k.container("c", k.b.Exit(0)...), q)
	k.becomes(c, exited)
	names := map[string]string{a: "a", b: "b", c: "c"}
	part := map[string]string{"part": k.run}
	state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
		return &runtimeapi.ContainerStateValue{State: s}
	}
	for _, tt := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   string
	}{
		{"none", nil, "a b c"},
		{"label", &runtimeapi.ContainerFilter{LabelSelector: part}, "a b c"},
		{"two labels", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"part": k.run, "io.kubernetes.container.name": "b"}}, "b"},
		{"label nobody has", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"part": k.run, "x": "y"}}, ""},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: first}, "a b"},
		{"sandbox and state", &runtimeapi.ContainerFilter{PodSandboxId: first, State: state(running)}, "a"},
		{"created", &runtimeapi.ContainerFilter{LabelSelector: part, State: state(created)}, "b"},
		{"exited", &runtimeapi.ContainerFilter{LabelSelector: part, State: state(exited)}, "c"},
		{"id", &runtimeapi.ContainerFilter{Id: a}, "a"},
		{"id in another sandbox", &runtimeapi.ContainerFilter{Id: a, PodSandboxId: second}, ""},
		{"unknown id", &runtimeapi.ContainerFilter{Id: strings.Repeat("0", 64)}, ""},
		{"unknown sandbox", &runtimeapi.ContainerFilter{PodSandboxId: strings.Repeat("0", 64)}, ""},
	} {
		var got []string
		for _, x := range k.containers(tt.filter) {
			if n, ok := names[x.Id]; ok || tt.filter != nil {
				got = append(got, n)
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(tt.want, strings.Join(got, " ")); d != "" {
			k.Errorf("ListContainers, %s (-want +got):\n%s", tt.name, d)
		}
	}
}

// containerLog: the log is where the configuration says, in the CRI's format.
func containerLog(k *kit) {
	if k.b.Print == nil {
		k.Log("left out: the backend has no command that prints")
		return
	}
	p := k.pod()
	c := k.container("main", k.b.Print("hello there")...)
	// As the kubelet, the SDK makes the directory.
	k.must("make the log's directory", os.MkdirAll(filepath.Join(k.logs, "main"), 0o755))
	id := k.start(k.sandbox(p), c, p)
	path := k.becomes(id, exited).LogPath
	for end := time.Now().Add(k.b.Patience); ; time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(path)
		line, _, _ := strings.Cut(string(data), "\n")
		f := strings.SplitN(line, " ", 4)
		if err == nil && len(f) == 4 && f[1] == "stdout" && f[2] == "F" && f[3] == "hello there" {
			if _, err := time.Parse(time.RFC3339Nano, f[0]); err != nil {
				k.Errorf("time of the log line: %v", err)
			}
			return
		}
		if time.Now().After(end) {
			k.Fatalf("log %s: %q, %v", path, data, err)
		}
	}
}

func stopGrace(k *kit) {
	if k.b.Stubborn == nil {
		k.Log("left out: the backend has no command that stays at SIGTERM")
		return
	}
	id, _ := k.started(k.b.Stubborn...)
	time.Sleep(k.b.Settle)
	began := time.Now()
	k.must("StopContainer", k.rt.StopContainer(k.Context(), id, 2))
	if took := time.Since(began); took < 1900*time.Millisecond || took > k.b.Patience {
		k.Errorf("StopContainer with 2 s of grace took %v", took)
	}
	if s := k.status(id); s.State != exited || s.ExitCode != killed {
		k.Errorf("after its grace: %v, want exit code %d", s, killed)
	}
	other, _ := k.started(k.b.Stubborn...)
	began = time.Now()
	k.must("StopContainer", k.rt.StopContainer(k.Context(), other, 0))
	if took := time.Since(began); took > k.b.Patience/2 {
		k.Errorf("StopContainer without grace took %v", took)
	}
	if s := k.status(other); s.State != exited || s.ExitCode != killed {
		k.Errorf("after no grace: %v, want exit code %d", s, killed)
	}
}

func stopIdempotent(k *kit) {
	id, sandbox := k.started(k.b.Exit(3)...)
	before := k.becomes(id, exited)
	for range 2 {
		k.must("StopContainer of an exited container", k.rt.StopContainer(k.Context(), id, 5))
	}
	if d := cmp.Diff(before.String(), k.status(id).String()); d != "" {
		k.Errorf("StopContainer changed an exited container (-before +after):\n%s", d)
	}
	p := k.pod()
	never := k.create(k.sandbox(p), k.container("never", k.b.Run...), p)
	k.must("StopContainer of a container that was never started", k.rt.StopContainer(k.Context(), never, 5))
	k.must("RemoveContainer of a container that was never started", k.rt.RemoveContainer(k.Context(), never))
	k.must("RemoveContainer", k.rt.RemoveContainer(k.Context(), id))
	if err := k.rt.StopContainer(k.Context(), id, 5); err != nil && !crierrors.IsNotFound(err) {
		k.Errorf("StopContainer of a container that is gone: %v, want nil or NotFound", err)
	}
	k.must("StopPodSandbox", k.rt.StopPodSandbox(k.Context(), sandbox))
}

func stopUnknown(k *kit) {
	if k.b.MakeUnknown == nil {
		k.Log("left out: the backend cannot lose a container")
		return
	}
	id, sandbox := k.started(k.b.Run...)
	k.b.MakeUnknown(k.T, id)
	if s := k.status(id); s.State != unknown {
		k.Fatalf("the lost container is %v", s.State)
	}
	if l := k.containers(&runtimeapi.ContainerFilter{PodSandboxId: sandbox}); len(l) != 1 || l[0].State != unknown {
		k.Errorf("ListContainers: %v", l)
	}
	k.must("StopContainer of unknown state", k.rt.StopContainer(k.Context(), id, 5))
	if s := k.status(id); s.State != exited || s.ExitCode == 0 || s.FinishedAt == 0 {
		k.Errorf("a container of unknown state after StopContainer: %v", s)
	}
	k.must("RemoveContainer", k.rt.RemoveContainer(k.Context(), id))
}

// stopCut: a stop that takes long gives way, and can be repeated with less grace.
func stopCut(k *kit) {
	if k.b.Stubborn == nil {
		k.Log("left out: the backend has no command that stays at SIGTERM")
		return
	}
	id, _ := k.started(k.b.Stubborn...)
	time.Sleep(k.b.Settle)
	ctx, cancel := context.WithTimeout(k.Context(), 300*time.Millisecond)
	defer cancel()
	if err := k.within(k.b.Patience, "StopContainer whose context ended", func() error { return k.rt.StopContainer(ctx, id, 600) }); err == nil {
		k.Error("StopContainer whose context ended gave no error")
	}
	if s := k.status(id); s.State != running {
		k.Errorf("the container is %v although its grace is not over", s.State)
	}
	if err := k.within(k.b.Patience, "StopContainer with less grace", func() error { return k.rt.StopContainer(k.Context(), id, 1) }); err != nil {
		k.Errorf("StopContainer with less grace: %v", err)
	}
	if s := k.status(id); s.State != exited || s.ExitCode != killed {
		k.Errorf("after the second stop: %v", s)
	}
}

func removeKills(k *kit) {
	id, sandbox := k.started(k.b.Run...)
	k.must("RemoveContainer of a running container", k.rt.RemoveContainer(k.Context(), id))
	if l := k.containers(&runtimeapi.ContainerFilter{PodSandboxId: sandbox}); len(l) != 0 {
		k.Errorf("after RemoveContainer: %s", ids(l))
	}
	p := k.pod()
	other := k.sandbox(p)
	k.start(other, k.container("main", k.b.Run...), p)
	k.must("RemovePodSandbox of a running sandbox", k.rt.RemovePodSandbox(k.Context(), other))
	if l := k.containers(&runtimeapi.ContainerFilter{PodSandboxId: other}); len(l) != 0 {
		k.Errorf("after RemovePodSandbox: %s", ids(l))
	}
}

func createRefused(k *kit) {
	p := k.pod()
	sandbox := k.sandbox(p)
	c := k.container("main", k.b.Run...)
	if _, err := k.rt.CreateContainer(k.Context(), strings.Repeat("0", 64), c, p); err == nil {
		k.Error("CreateContainer in a sandbox that does not exist gave no error")
	}
	k.must("StopPodSandbox", k.rt.StopPodSandbox(k.Context(), sandbox))
	id, err := k.rt.CreateContainer(k.Context(), sandbox, c, p)
	if err == nil {
		err = k.rt.StartContainer(k.Context(), id)
	}
	if err == nil {
		k.Error("a container was started in a stopped sandbox")
	}
	if k.b.NoImage != "" {
		c.Image = &runtimeapi.ImageSpec{Image: k.b.NoImage}
		live := k.pod()
		if _, err := k.rt.CreateContainer(k.Context(), k.sandbox(live), c, live); err == nil {
			k.Error("CreateContainer of an image that is not there gave no error")
		}
	}
}

// exitStatus is the error of a command that ended with a code of its own.
type exitStatus interface {
	error
	ExitStatus() int
}

func execSync(k *kit) {
	e := k.b.Exec
	if e == nil {
		k.Log("left out: the backend has no commands for ExecSync")
		return
	}
	id, _ := k.started(k.b.Run...)
	stdout, stderr, err := k.rt.ExecSync(k.Context(), id, e.Print, k.b.Patience)
	if err != nil || string(stdout) != "out" || string(stderr) != "err" {
		k.Errorf("ExecSync of %q: %q, %q, %v", e.Print, stdout, stderr, err)
	}
	_, _, err = k.rt.ExecSync(k.Context(), id, e.Fail, k.b.Patience)
	var code exitStatus
	if !errors.As(err, &code) || code.ExitStatus() != 3 {
		k.Errorf("ExecSync of %q: %v, want an error with exit status 3", e.Fail, err)
	}
	began := time.Now()
	_, _, err = k.rt.ExecSync(k.Context(), id, e.Sleep, time.Second)
	if took := time.Since(began); err == nil || errors.As(err, &code) || took < 900*time.Millisecond || took > 8*time.Second {
		k.Errorf("ExecSync of %q with 1 s: %v after %v, want an error that is not the command's own, after 1 s", e.Sleep, err, took)
	}
	if s := k.status(id); s.State != running {
		k.Errorf("the container is %v after commands in it", s.State)
	}
	k.must("StopContainer", k.rt.StopContainer(k.Context(), id, 5))
	if _, _, err := k.rt.ExecSync(k.Context(), id, e.Print, k.b.Patience); err == nil {
		k.Error("ExecSync in an exited container gave no error")
	}
}
