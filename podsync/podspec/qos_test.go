package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/sdk/podsync/podspec"
)

func TestQOS(t *testing.T) {
	req := func(cpuReq, memReq, cpuLim, memLim string) corev1.ResourceRequirements {
		r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
		for _, x := range []struct {
			l corev1.ResourceList
			n corev1.ResourceName
			v string
		}{{r.Requests, "cpu", cpuReq}, {r.Requests, "memory", memReq}, {r.Limits, "cpu", cpuLim}, {r.Limits, "memory", memLim}} {
			if x.v != "" {
				x.l[x.n] = resource.MustParse(x.v)
			}
		}
		return r
	}
	full := req("", "", "1", "1Gi")
	for _, tt := range []struct {
		name             string
		containers, init []corev1.ResourceRequirements
		pod              *corev1.ResourceRequirements
		status           corev1.PodQOSClass
		want             corev1.PodQOSClass
	}{
		{name: "nothing", containers: []corev1.ResourceRequirements{{}}, want: corev1.PodQOSBestEffort},
		{name: "zero is nothing", containers: []corev1.ResourceRequirements{req("0", "0", "0", "")}, want: corev1.PodQOSBestEffort},
		{name: "limits alone", containers: []corev1.ResourceRequirements{full, full}, want: corev1.PodQOSGuaranteed},
		{name: "requests below limits", containers: []corev1.ResourceRequirements{req("500m", "1Gi", "1", "1Gi")}, want: corev1.PodQOSBurstable},
		{name: "one container without limits", containers: []corev1.ResourceRequirements{full, {}}, want: corev1.PodQOSBurstable},
		{name: "no memory limit", containers: []corev1.ResourceRequirements{req("1", "", "1", "")}, want: corev1.PodQOSBurstable},
		{name: "request alone", containers: []corev1.ResourceRequirements{req("1m", "", "", "")}, want: corev1.PodQOSBurstable},
		{name: "init container without limits", containers: []corev1.ResourceRequirements{full}, init: []corev1.ResourceRequirements{{}}, want: corev1.PodQOSBurstable},
		{name: "init container with limits", containers: []corev1.ResourceRequirements{full}, init: []corev1.ResourceRequirements{full}, want: corev1.PodQOSGuaranteed},
		{name: "pod level wins, guaranteed", containers: []corev1.ResourceRequirements{{}}, pod: &full, want: corev1.PodQOSGuaranteed},
		{name: "pod level wins, burstable", containers: []corev1.ResourceRequirements{full}, pod: new(req("1", "", "", "")), want: corev1.PodQOSBurstable},
		{name: "the class in the status stays", containers: []corev1.ResourceRequirements{full}, status: corev1.PodQOSBurstable, want: corev1.PodQOSBurstable},
		{name: "an unknown class in the status does not", containers: []corev1.ResourceRequirements{full}, status: "Gold", want: corev1.PodQOSGuaranteed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := minimal()
			p.Spec.Containers = nil
			for _, r := range tt.containers {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c", Image: "i", Resources: *r.DeepCopy()})
			}
			for _, r := range tt.init {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "i", Image: "i", Resources: *r.DeepCopy()})
			}
			p.Spec.Resources = tt.pod.DeepCopy()
			p.Status.QOSClass = tt.status
			podspec.Default(p)
			if got := podspec.QOS(p); got != tt.want {
				t.Errorf("QOS: want %s, got %s", tt.want, got)
			}
		})
	}
}
