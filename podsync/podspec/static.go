package podspec

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The annotations by which a node agent marks pods. They say where a pod comes
// from on this node; what a manifest or an API server says there is not believed.
const (
	// AnnotationSource is the name of the source that a pod came from: "file",
	// "http" or "api".
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash identifies the content of a pod that did not come from an
	// API server. A mirror pod carries it to tell which content it mirrors.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is when the agent first saw the pod. The agent sets it.
	AnnotationSeen = "kubernetes.io/config.seen"
	// AnnotationMirror marks, in an API server, the image of a static pod.
	AnnotationMirror = "kubernetes.io/config.mirror"
)

// Static says where a static pod, one that no API server knows, comes from.
type Static struct {
	// Node is the node's name; it is lowered, as node names are lower case. It
	// ends the pod's name, so that one manifest on many nodes makes pods of
	// different names. "" leaves the name alone.
	Node string
	// SourceName is what AnnotationSource becomes: "file", "http".
	SourceName string
	// Origin is the path or URL of the manifest. Part of the generated UID.
	Origin string
	// File tells that the pod comes from a file of this machine: it then
	// tolerates every NoExecute taint, as the kubelet's file pods do.
	File bool
}

// ApplyStaticDefaults sets in place what a pod from a file or a URL needs and
// an API server would have given it, as the kubelet does: a UID, if it has none,
// made by StaticUID; the name with "-<node>" appended; the
// namespace "default"; spec.nodeName; the source and hash annotations; phase
// Pending. What only an API server may say is dropped: status, deletion and
// managed fields, owners, the annotations that mark a mirror pod.
//
// It comes before Default, so that a UID does not change with the defaults that
// a later version of the API adds, and is applied once: the name grows with
// every call.
//
// A pod that asks for what only a control plane can make is refused with an
// *InvalidError: resourceClaims, clusterTrustBundle and podCertificate
// projections, and ephemeral volumes' claims. References to ConfigMaps, Secrets
// and service accounts are allowed, unlike in the kubelet: podsync.Objects need
// no API server.
func ApplyStaticDefaults(pod *corev1.Pod, s Static) error {
	if errs := refusedInStatic(pod); len(errs) > 0 {
		return &InvalidError{Pod: printable(pod), Errs: errs}
	}
	dropServerFields(pod)
	node := strings.ToLower(s.Node)
	hash := contentHash(pod, node, s.Origin)
	if pod.UID == "" {
		pod.UID = StaticUID(pod, node, s.Origin)
	}
	if pod.Name != "" && node != "" {
		pod.Name += "-" + node
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node
	if pod.Annotations == nil {
		pod.Annotations = make(map[string]string, 3)
	}
	pod.Annotations[AnnotationSource] = s.SourceName
	pod.Annotations[AnnotationHash] = string(hash)
	if s.File {
		tolerateNoExecute(pod)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return nil
}

// StaticUID makes a UID for a pod that has none, from its content, its node and
// its origin: equal on every start, different for another node or file, and
// unchanged by white space, comments, key order or status in the manifest. It is
// an FNV-1a hash of 128 bits, in hexadecimal, like the kubelet's, but not the
// same number: the kubelet hashes a printout of its internal types.
//
// Unlike the kubelet's it does not depend on amounts of CPU and memory, as long
// as the pod's quality of service class stays: a manifest in which only those
// change is the same pod, resized.
func StaticUID(pod *corev1.Pod, node, origin string) types.UID {
	c := pod.DeepCopy()
	defaulted := pod.DeepCopy()
	Default(defaulted)
	class := QOS(defaulted)
	sized := maskAmounts(c.Spec.Resources)
	for _, l := range [...][]corev1.Container{c.Spec.InitContainers, c.Spec.Containers} {
		for i := range l {
			sized = maskAmounts(&l[i].Resources) || sized
		}
	}
	if sized {
		origin += "\x00class:" + string(class)
	}
	return contentHash(c, node, origin)
}

// maskAmounts drops CPU and memory, and tells whether there were any.
func maskAmounts(r *corev1.ResourceRequirements) (any bool) {
	if r == nil {
		return false
	}
	for _, l := range [...]corev1.ResourceList{r.Requests, r.Limits} {
		for _, n := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if _, ok := l[n]; ok {
				any = true
				delete(l, n)
			}
		}
	}
	return any
}

// contentHash identifies all that a manifest's author wrote.
func contentHash(pod *corev1.Pod, node, origin string) types.UID {
	content := corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	content.ObjectMeta = contentMeta(&pod.ObjectMeta)
	h := fnv.New128a()
	// A pod can be encoded: its types have no channels, functions or cycles. Were
	// that ever wrong the UID would still tell nodes and origins apart.
	_ = json.NewEncoder(h).Encode(&content)
	fmt.Fprintf(h, "host:%s\x00from:%s", node, origin)
	return types.UID(hex.EncodeToString(h.Sum(nil)))
}

// contentMeta is the part of the metadata that a manifest's author writes.
func contentMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	c := metav1.ObjectMeta{Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, UID: m.UID, Labels: m.Labels}
	for k, v := range m.Annotations {
		if !localAnnotation(k) {
			if c.Annotations == nil {
				c.Annotations = make(map[string]string, len(m.Annotations))
			}
			c.Annotations[k] = v
		}
	}
	return c
}

func localAnnotation(key string) bool {
	return key == AnnotationSource || key == AnnotationHash || key == AnnotationSeen || key == AnnotationMirror
}

// dropServerFields removes what an API server writes into a pod, as in a
// manifest made by "kubectl get -o yaml". A deletionTimestamp would stop the pod
// as soon as it came, an owner would have it collected.
func dropServerFields(pod *corev1.Pod) {
	m := &pod.ObjectMeta
	m.CreationTimestamp = metav1.Time{}
	m.DeletionTimestamp = nil
	m.DeletionGracePeriodSeconds = nil
	m.ResourceVersion = ""
	m.Generation = 0
	m.SelfLink = ""
	m.OwnerReferences = nil
	m.Finalizers = nil
	m.ManagedFields = nil
	for _, k := range []string{AnnotationSource, AnnotationHash, AnnotationSeen, AnnotationMirror} {
		delete(m.Annotations, k)
	}
	pod.Status = corev1.PodStatus{}
}

func tolerateNoExecute(pod *corev1.Pod) {
	t := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	same := func(o corev1.Toleration) bool {
		return o.Key == "" && o.Value == "" && o.Operator == t.Operator && o.Effect == t.Effect
	}
	if i := slices.IndexFunc(pod.Spec.Tolerations, same); i >= 0 {
		pod.Spec.Tolerations[i] = t // one with tolerationSeconds would be weaker
		return
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
}

// refusedInStatic lists what a pod without a control plane cannot have.
func refusedInStatic(pod *corev1.Pod) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	const detail = "a static pod cannot use what a control plane has to make for it"
	if len(pod.Spec.ResourceClaims) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("resourceClaims"), detail))
	}
	for i := range pod.Spec.Volumes {
		v, p := &pod.Spec.Volumes[i], spec.Child("volumes").Index(i)
		if v.Ephemeral != nil {
			errs = append(errs, field.Forbidden(p.Child("ephemeral"), detail))
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			s, sp := &v.Projected.Sources[j], p.Child("projected", "sources").Index(j)
			if s.ClusterTrustBundle != nil {
				errs = append(errs, field.Forbidden(sp.Child("clusterTrustBundle"), detail))
			}
			if s.PodCertificate != nil {
				errs = append(errs, field.Forbidden(sp.Child("podCertificate"), detail))
			}
		}
	}
	return errs
}
