package admit_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/admit"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func list(kv ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		l[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return l
}

func theNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{"zone": "a"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "maintenance", Value: "true", Effect: corev1.TaintEffectNoExecute},
			{Key: "busy", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Allocatable: list("cpu", "3", "memory", "1Gi", "ephemeral-storage", "10Gi", "pods", "4", "example.com/dev", "1")},
	}
}

func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: "maintenance", Operator: corev1.TolerationOpExists}}
}

func fromFile(p *corev1.Pod) {
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
}

func sysctl(name string) podsynctest.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: name, Value: "1"}}}
	}
}

func port(host int32, ip string, proto corev1.Protocol) podsynctest.PodOption {
	return podsynctest.Container(corev1.Container{Name: "app", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: host, HostIP: ip, Protocol: proto}}})
}

func affinity(value string) podsynctest.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}},
		}}}
	}
}

func TestStandard(t *testing.T) {
	requests := func(kv ...string) podsynctest.PodOption { return podsynctest.Requests(list(kv...)) }
	other := podsynctest.Pod(podsynctest.Named("other"), requests("cpu", "2", "example.com/dev", "1"))
	ported := podsynctest.Pod(podsynctest.Named("ported"), port(8080, "", ""))
	selector := func(k, v string) podsynctest.PodOption {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{k: v} }
	}
	for _, tc := range []struct {
		name     string
		pod      []podsynctest.PodOption
		admitted []*corev1.Pod
		want     string // outcome; "" is Continue
		message  string
	}{
		{"plain", nil, nil, "", ""},
		{"node selector", []podsynctest.PodOption{selector("zone", "b")}, nil, "Reject(NodeAffinity)", "node selector"},
		{"node selector matches", []podsynctest.PodOption{selector("zone", "a")}, nil, "", ""},
		{"required affinity", []podsynctest.PodOption{affinity("b")}, nil, "Reject(NodeAffinity)", ""},
		{"required affinity matches", []podsynctest.PodOption{affinity("a")}, nil, "", ""},
		{"other architecture", []podsynctest.PodOption{selector("kubernetes.io/arch", "vax")}, nil, "Reject(NodeAffinity)", "vax"},
		{"other os", []podsynctest.PodOption{func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "windows"} }}, nil, "Reject(PodOSNotSupported)", "windows"},
		{"other os by label", []podsynctest.PodOption{func(p *corev1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "plan9"} }}, nil, "Reject(PodOSSelectorNodeLabelDoesNotMatch)", "plan9"},
		{"does not fit", []podsynctest.PodOption{requests("cpu", "2")}, []*corev1.Pod{other}, "Reject(OutOfcpu)", "requested 2, in use 2, allocatable 3"},
		{"fits", []podsynctest.PodOption{requests("cpu", "1")}, []*corev1.Pod{other}, "", ""},
		{"memory", []podsynctest.PodOption{requests("memory", "2Gi")}, nil, "Reject(OutOfmemory)", ""},
		{"ephemeral storage", []podsynctest.PodOption{requests("ephemeral-storage", "20Gi")}, nil, "Reject(OutOfephemeral-storage)", ""},
		{"extended", []podsynctest.PodOption{requests("example.com/dev", "1")}, []*corev1.Pod{other}, "Reject(OutOfexample.com/dev)", ""},
		{"extended resource that the node does not list", []podsynctest.PodOption{requests("example.com/elsewhere", "7")}, nil, "", ""},
		{"pods", nil, []*corev1.Pod{other, ported, podsynctest.Pod(podsynctest.Named("x")), podsynctest.Pod(podsynctest.Named("y"))}, "Reject(OutOfpods)", "in use 4"},
		{"host port", []podsynctest.PodOption{port(8080, "", "")}, []*corev1.Pod{ported}, "Reject(NodePorts)", "default/ported"},
		{"host port of one address", []podsynctest.PodOption{port(8080, "127.0.0.1", "")}, []*corev1.Pod{ported}, "Reject(NodePorts)", ""},
		{"host port of another protocol", []podsynctest.PodOption{port(8080, "", corev1.ProtocolUDP)}, []*corev1.Pod{ported}, "", ""},
		{"host port of a sidecar", []podsynctest.PodOption{podsynctest.Sidecar(corev1.Container{Name: "s", Ports: []corev1.ContainerPort{{HostPort: 8080}}})}, []*corev1.Pod{ported}, "Reject(NodePorts)", ""},
		{"safe sysctl", []podsynctest.PodOption{sysctl("net.ipv4.tcp_syncookies")}, nil, "", ""},
		{"safe sysctl with slashes", []podsynctest.PodOption{sysctl("net/ipv4/tcp_syncookies")}, nil, "", ""},
		{"unsafe sysctl", []podsynctest.PodOption{sysctl("kernel.msgmax")}, nil, "Reject(SysctlForbidden)", "kernel.msgmax"},
		{"sysctl of the host's network", []podsynctest.PodOption{sysctl("net.ipv4.tcp_syncookies"), podsynctest.HostNetwork()}, nil, "Reject(SysctlForbidden)", "hostNetwork"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := admit.Standard(admit.Fixed(theNode())).Build()
			if err != nil {
				t.Fatal(err)
			}
			o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod(append([]podsynctest.PodOption{tolerant}, tc.pod...)...), podsync.WithAdmitted(tc.admitted...)))
			want := tc.want
			if want == "" {
				want = "Continue"
			}
			if got := podsynctest.Short(o); got != want || !strings.Contains(o.Message(), tc.message) {
				t.Errorf("outcome %v, want %s with %q", o, want, tc.message)
			}
		})
	}
}

func TestSysctlsAllowed(t *testing.T) {
	for name, want := range map[string]podsync.Kind{"kernel.msgmax": podsync.KindContinue, "kernel.sem": podsync.KindReject, "vm.swappiness": podsync.KindReject} {
		st := admit.Sysctls{AllowedUnsafe: []string{"kernel.msg*", "vm.swappiness"}}
		if o := st.Run(t.Context(), podsync.NewSync(podsynctest.Pod(sysctl(name)))); o.Kind() != want {
			t.Errorf("%s: %v, want %v", name, o, want)
		}
	}
}

// A pod whose API phase is terminal and whose containers still stop holds its
// resources: the agent lists it as admitted, and it counts.
func TestCase_ADM_02_StoppingPodsCount(t *testing.T) {
	old := podsynctest.Pod(podsynctest.Named("old"), podsynctest.Requests(list("cpu", "2")))
	old.Status.Phase = corev1.PodFailed
	st := admit.Resources{Node: admit.Fixed(theNode())}
	pod := podsynctest.Pod(podsynctest.Requests(list("cpu", "2")))
	if o := st.Run(t.Context(), podsync.NewSync(pod, podsync.WithAdmitted(old))); o.Reason() != "OutOfcpu" {
		t.Errorf("while old stops: %v", o)
	}
	if o := st.Run(t.Context(), podsync.NewSync(pod)); o.Stops() {
		t.Errorf("after old has stopped: %v", o)
	}
}

// A node that is not known yet refuses nobody.
func TestCase_ADM_09_UnknownNode(t *testing.T) {
	var node *corev1.Node
	p, err := admit.Standard(func() *corev1.Node { return node }).Build()
	if err != nil {
		t.Fatal(err)
	}
	pod := podsynctest.Pod(tolerant, affinity("a"))
	o := p.Run(t.Context(), podsync.NewSync(pod))
	if o.Kind() != podsync.KindWait || len(o.Wake()) == 0 {
		t.Errorf("unknown node: %v", o)
	}
	node = theNode()
	if o := p.Run(t.Context(), podsync.NewSync(pod)); o.Stops() {
		t.Errorf("known node: %v", o)
	}
}

func TestCase_ADM_10_Taints(t *testing.T) {
	st := admit.Taints{Node: admit.Fixed(theNode())}
	if o := st.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); podsynctest.Short(o) != "Reject(TaintToleration)" || !strings.Contains(o.Message(), "maintenance=true:NoExecute") {
		t.Errorf("API pod: %v", o)
	}
	if o := st.Run(t.Context(), podsync.NewSync(podsynctest.Pod(fromFile))); o.Kind() != podsync.KindSkip {
		t.Errorf("pod of a file: %v", o)
	}
	n := theNode()
	n.Spec.Taints = n.Spec.Taints[1:]
	if o := (admit.Taints{Node: admit.Fixed(n)}).Run(t.Context(), podsync.NewSync(podsynctest.Pod())); o.Stops() {
		t.Errorf("NoSchedule: %v", o)
	}
}

func TestResourcesCanWait(t *testing.T) {
	st := admit.Resources{Node: admit.Fixed(theNode()), Wait: true}
	o := st.Run(t.Context(), podsync.NewSync(podsynctest.Pod(podsynctest.Requests(list("cpu", "8")))))
	if o.Kind() != podsync.KindWait || o.Reason() != "OutOfcpu" {
		t.Errorf("outcome %v", o)
	}
}

func TestContract(t *testing.T) {
	for _, tc := range []struct {
		stage podsync.Stage
		want  podsync.Kind
	}{
		{admit.Sysctls{}, podsync.KindSkip}, {admit.OS{}, podsync.KindContinue}, {admit.NodeSelector{Node: admit.Fixed(theNode())}, podsync.KindSkip},
		{admit.Taints{Node: admit.Fixed(theNode())}, podsync.KindContinue}, {admit.HostPorts{}, podsync.KindSkip},
		{admit.Resources{Node: admit.Fixed(theNode())}, podsync.KindContinue},
	} {
		t.Run(tc.stage.Name(), func(t *testing.T) {
			podsynctest.Stage(t, podsynctest.StageCase{New: func(*testing.T) podsync.Stage { return tc.stage }, Pod: podsynctest.Pod(tolerant), Want: tc.want})
		})
	}
}

func Example() {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
	p, err := admit.Standard(admit.Fixed(node)).Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)
	// Output: admit: sysctls > os > node-selector > taints > host-ports > resources
}
