package admit

import (
	"context"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/podsync/sdk/podsync"
)

// NodeSelector refuses a pod whose nodeSelector or required node affinity does
// not match the node's labels: reason NodeAffinity.
type NodeSelector struct {
	// Node is the node judged against.
	Node Node
}

var _ podsync.Stage = NodeSelector{}

// Name returns podsync.StageNodeSelector.
func (NodeSelector) Name() string { return podsync.StageNodeSelector }

// Run rejects the pod when the node does not match.
func (n NodeSelector) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	p := s.Pod()
	if len(p.Spec.NodeSelector) == 0 && (p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil) {
		return podsync.Skip("NoNodeSelector")
	}
	node, o := n.Node.get()
	if node == nil {
		return o
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(node)
	switch {
	case err != nil:
		return podsync.Reject("NodeAffinity", "the pod's node affinity cannot be read: %v", err)
	case !match:
		return podsync.Reject("NodeAffinity", "the node's labels do not match the pod's node selector or required node affinity")
	}
	return podsync.Continue()
}

// Taints refuses a pod that does not tolerate one of the node's NoExecute
// taints: reason TaintToleration. Pods from files, HTTP and the like are placed
// by hand and not judged, as in the kubelet; NoSchedule is the scheduler's.
type Taints struct {
	// Node is the node judged against.
	Node Node
}

var _ podsync.Stage = Taints{}

// Name returns podsync.StageTaints.
func (Taints) Name() string { return podsync.StageTaints }

// Run rejects the pod when a NoExecute taint is not tolerated.
func (t Taints) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if static(s.Pod()) {
		return podsync.Skip("StaticPod")
	}
	node, o := t.Node.get()
	if node == nil {
		return o
	}
	taint, found := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, s.Pod().Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }, true)
	if found {
		return podsync.Reject("TaintToleration", "the node has the taint %s, which the pod does not tolerate", taint.ToString())
	}
	return podsync.Continue()
}

// OS refuses a pod that is made for another operating system: reason
// PodOSNotSupported for spec.os, PodOSSelectorNodeLabelDoesNotMatch for the
// pod's kubernetes.io/os label; or for another architecture by its
// kubernetes.io/arch node selector: reason NodeAffinity.
type OS struct {
	// GOOS and GOARCH are the node's; default those of this program.
	GOOS, GOARCH string
}

var _ podsync.Stage = OS{}

// Name returns podsync.StageOS.
func (OS) Name() string { return podsync.StageOS }

// Run rejects the pod when it is made for another system.
func (o OS) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	goos, goarch := o.GOOS, o.GOARCH
	if goos == "" {
		goos = runtime.GOOS
	}
	if goarch == "" {
		goarch = runtime.GOARCH
	}
	p := s.Pod()
	if l, ok := p.Labels[corev1.LabelOSStable]; ok && l != goos {
		return podsync.Reject("PodOSSelectorNodeLabelDoesNotMatch", "the pod's label %s is %q, the node runs %q", corev1.LabelOSStable, l, goos)
	}
	if p.Spec.OS != nil && string(p.Spec.OS.Name) != goos {
		return podsync.Reject("PodOSNotSupported", "spec.os.name is %q, the node runs %q", p.Spec.OS.Name, goos)
	}
	if a, ok := p.Spec.NodeSelector[corev1.LabelArchStable]; ok && a != goarch {
		return podsync.Reject("NodeAffinity", "the pod's node selector wants %s=%s, the node is %q", corev1.LabelArchStable, a, goarch)
	}
	return podsync.Continue()
}
