package memory_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

func TestSandboxNameIsReservedUntilRemoved(t *testing.T) {
	n := newNode(t, memory.Options{})
	first := n.sandbox(podConfig("web"))
	if len(first) != 64 {
		t.Errorf("ID %q is not 64 digits", first)
	}
	_, err := n.RunPodSandbox(t.Context(), podConfig("web"), "")
	if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), `failed to reserve sandbox name "web_default_web-uid_0"`) {
		t.Fatalf("second sandbox of one name: %v", err)
	}
	n.ok(n.StopPodSandbox(t.Context(), first))
	if _, err := n.RunPodSandbox(t.Context(), podConfig("web"), ""); err == nil {
		t.Fatal("a stopped sandbox still holds its name")
	}
	next := podConfig("web")
	next.Metadata.Attempt = 1
	n.sandbox(next)
	n.ok(n.RemovePodSandbox(t.Context(), first))
	n.sandbox(podConfig("web"))
}

func TestFailedSandboxLeavesNothing(t *testing.T) {
	tests := []struct {
		name   string
		config *runtimeapi.PodSandboxConfig
		class  string
		code   codes.Code
		text   string
	}{
		{"no network", podConfig("web"), "", codes.Unknown, "cni plugin not initialized"},
		{"unknown handler", hostNetworkConfig("web"), "kata", codes.Unknown, `no runtime for "kata" is configured`},
		{"no name", &runtimeapi.PodSandboxConfig{}, "", codes.InvalidArgument, "must have a name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, memory.Options{})
			n.SetNetworkReady(false, "NetworkPluginNotReady", "no networks found")
			_, err := n.RunPodSandbox(t.Context(), tt.config, tt.class)
			if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error %v, want %s: …%s…", err, tt.code, tt.text)
			}
			if left := n.Leftovers(); len(left) != 0 {
				t.Errorf("left over: %q", left)
			}
			n.SetNetworkReady(true, "", "")
			n.sandbox(podConfig("web"))
		})
	}
}

func TestSandboxAddresses(t *testing.T) {
	n := newNode(t, memory.Options{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/29"), netip.MustParsePrefix("fd00::/64")}})
	one := n.sandbox(podConfig("one"))
	got := n.podStatus(one).Network
	if got.Ip != "10.1.0.2" || len(got.AdditionalIps) != 1 || got.AdditionalIps[0].Ip != "fd00::2" {
		t.Errorf("dual-stack addresses: %v", got)
	}
	if ip := n.podStatus(n.sandbox(hostNetworkConfig("host"))).Network.Ip; ip != "" {
		t.Errorf("a host-network sandbox has the address %q", ip)
	}
	var ips []string
	for _, name := range []string{"two", "three", "four", "five"} {
		ips = append(ips, n.podStatus(n.sandbox(podConfig(name))).Network.Ip)
	}
	if diff := cmp.Diff([]string{"10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6"}, ips); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if _, err := n.RunPodSandbox(t.Context(), podConfig("six"), ""); err == nil || !strings.Contains(err.Error(), "no IP addresses available") {
		t.Errorf("a full range: %v", err)
	}
	n.ok(n.StopPodSandbox(t.Context(), one))
	st := n.podStatus(one)
	if st.Network.Ip != "" || st.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("a stopped sandbox: %v", st)
	}
	if ip := n.podStatus(n.sandbox(podConfig("seven"))).Network.Ip; ip != "10.1.0.2" {
		t.Errorf("the freed address is not given again: %q", ip)
	}
}

func TestStopAndRemoveSandbox(t *testing.T) {
	n := newNode(t, memory.Options{})
	sandbox, app := n.start("web")
	waiting := containerConfig("waiting")
	created := n.create(sandbox, waiting)
	for range 2 {
		n.ok(n.StopPodSandbox(t.Context(), sandbox))
	}
	if st := n.status(app); st.State != runtimeapi.ContainerState_CONTAINER_EXITED || st.ExitCode != 137 {
		t.Errorf("container of a stopped sandbox: %v", st)
	}
	if st := n.status(created); st.State != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.Errorf("created container of a stopped sandbox: %v", st.State)
	}
	if err := n.StartContainer(t.Context(), created); err == nil || !strings.Contains(err.Error(), "is not running") {
		t.Errorf("start in a stopped sandbox: %v", err)
	}
	if _, err := n.CreateContainer(t.Context(), sandbox, containerConfig("late"), nil); err == nil || !strings.Contains(err.Error(), "is not running") {
		t.Errorf("create in a stopped sandbox: %v", err)
	}
	for range 2 {
		n.ok(n.RemovePodSandbox(t.Context(), sandbox))
	}
	if left := n.Leftovers(); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestListsFilter(t *testing.T) {
	n := newNode(t, memory.Options{})
	webPod, webApp := n.start("web")
	dbPod, dbApp := n.start("db")
	n.ok(n.StopPodSandbox(t.Context(), dbPod))
	ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	exited := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_EXITED}
	pods := []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		want   []string
	}{
		{"all", nil, []string{webPod, dbPod}},
		{"empty filter", &runtimeapi.PodSandboxFilter{}, []string{webPod, dbPod}},
		{"id", &runtimeapi.PodSandboxFilter{Id: dbPod}, []string{dbPod}},
		{"short id", &runtimeapi.PodSandboxFilter{Id: dbPod[:13]}, []string{dbPod}},
		{"unknown id", &runtimeapi.PodSandboxFilter{Id: "ffff"}, nil},
		{"state", &runtimeapi.PodSandboxFilter{State: ready}, []string{webPod}},
		{"label", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"app": "db"}}, []string{dbPod}},
		{"label and state", &runtimeapi.PodSandboxFilter{State: ready, LabelSelector: map[string]string{"app": "db"}}, nil},
	}
	for _, tt := range pods {
		t.Run("pods/"+tt.name, func(t *testing.T) {
			items, err := n.ListPodSandbox(t.Context(), tt.filter)
			n.ok(err)
			var got []string
			for _, p := range items {
				got = append(got, p.Id)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	containers := []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		{"all", nil, []string{webApp, dbApp}},
		{"id", &runtimeapi.ContainerFilter{Id: dbApp}, []string{dbApp}},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: webPod}, []string{webApp}},
		{"unknown sandbox", &runtimeapi.ContainerFilter{PodSandboxId: "ffff"}, nil},
		{"id in another sandbox", &runtimeapi.ContainerFilter{Id: dbApp, PodSandboxId: webPod}, nil},
		{"state", &runtimeapi.ContainerFilter{State: exited}, []string{dbApp}},
		{"label", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.container.name": "app"}}, []string{webApp, dbApp}},
		{"other label", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"app": "x"}}, nil},
	}
	for _, tt := range containers {
		t.Run("containers/"+tt.name, func(t *testing.T) {
			items, err := n.ListContainers(t.Context(), tt.filter)
			n.ok(err)
			var got []string
			for _, c := range items {
				got = append(got, c.Id)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallersCannotChangeTheState(t *testing.T) {
	n := newNode(t, memory.Options{})
	config := podConfig("web")
	sandbox := n.sandbox(config)
	c := containerConfig("app")
	c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data"}}
	id := n.create(sandbox, c)
	config.Labels["app"], config.Metadata.Name = "changed", "changed"
	c.Labels["io.kubernetes.container.name"], c.Mounts[0].ContainerPath = "changed", "/changed"
	for range 2 {
		pods, err := n.ListPodSandbox(t.Context(), nil)
		n.ok(err)
		list, err := n.ListContainers(t.Context(), nil)
		n.ok(err)
		st, pst := n.status(id), n.podStatus(sandbox)
		if pods[0].Labels["app"] != "web" || pst.Labels["app"] != "web" || pst.Metadata.Name != "web" ||
			list[0].Labels["io.kubernetes.container.name"] != "app" || st.Mounts[0].ContainerPath != "/data" || st.Metadata.Name != "app" {
			t.Fatalf("a caller has changed the state: %v %v %v %v", pods, list, st, pst)
		}
		for _, m := range []map[string]string{pods[0].Labels, pst.Labels, list[0].Labels, st.Labels} {
			m["app"], m["io.kubernetes.container.name"] = "changed", "changed"
		}
		st.Mounts[0].ContainerPath, st.Metadata.Name, pst.Metadata.Name, list[0].Metadata.Name = "/x", "x", "x", "x"
	}
}

func TestSameSeedSameIDs(t *testing.T) {
	ids := func(seed string) string {
		n := newNode(t, memory.Options{Seed: seed})
		s, c := n.start("web")
		return s + c
	}
	if ids("a") != ids("a") || ids("a") == ids("b") {
		t.Error("IDs do not follow the seed")
	}
}
