package cgroups

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	sliceSuffix = ".slice"
	podPrefix   = "pod"
	// nameMax is the kernel's limit for one file name and systemd's for a unit.
	nameMax = 255
)

// Parts of names that the kubelet uses.
const (
	// KubepodsPart is the cgroup that holds all pods.
	KubepodsPart = "kubepods"
	// BurstablePart is the tier of Burstable pods.
	BurstablePart = "burstable"
	// BestEffortPart is the tier of BestEffort pods.
	BestEffortPart = "besteffort"
)

// Name is a cgroup's name apart from any driver's spelling: its parts from the
// root down. The zero value is the root. Both spellings can be turned back into
// it, which is why a part cannot hold '/' or '_': systemd's spelling needs both.
type Name struct{ parts []string }

// NameError says that a part cannot be part of a cgroup's name.
type NameError struct {
	// Part is the offending part or spelling.
	Part string
	// Why says what is wrong with it.
	Why string
}

// Error names the part and what is wrong with it.
func (e *NameError) Error() string { return fmt.Sprintf("cgroup name %q: %s", e.Part, e.Why) }

// NewName makes a name of its parts. A part is 1 to 255 ASCII letters, digits,
// '-', '.', ':' or '@' and neither "." nor ".."; anything else is a *NameError.
func NewName(parts ...string) (Name, error) { return Name{}.Child(parts...) }

// Child returns the name with further parts below it; see NewName.
func (n Name) Child(parts ...string) (Name, error) {
	for _, p := range parts {
		if why := badPart(p); why != "" {
			return Name{}, &NameError{Part: p, Why: why}
		}
	}
	all := make([]string, 0, len(n.parts)+len(parts))
	return Name{parts: append(append(all, n.parts...), parts...)}, nil
}

func badPart(p string) string {
	switch {
	case p == "":
		return "a part is empty"
	case p == "." || p == "..":
		return "a part cannot be a relative path"
	case len(p) > nameMax:
		return fmt.Sprintf("a part is longer than %d bytes", nameMax)
	}
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '.', c == ':', c == '@':
		default:
			return fmt.Sprintf("byte %q cannot be mapped back from every driver's spelling", c)
		}
	}
	return ""
}

// Parts returns the parts from the root down. The caller must not change them.
func (n Name) Parts() []string { return n.parts }

// Base returns the last part, "" for the root.
func (n Name) Base() string {
	if len(n.parts) == 0 {
		return ""
	}
	return n.parts[len(n.parts)-1]
}

// Cgroupfs returns the name as a path of the cgroupfs driver, as in
// "/kubepods/burstable/pod1234".
func (n Name) Cgroupfs() string { return "/" + strings.Join(n.parts, "/") }

// Slice returns the name as a systemd unit, as in
// "kubepods-burstable-pod1234_abcd.slice"; the root is "-.slice". A '-' within a
// part becomes '_', since systemd takes '-' for nesting.
func (n Name) Slice() string {
	if len(n.parts) == 0 {
		return "-" + sliceSuffix
	}
	return strings.Join(n.escaped(), "-") + sliceSuffix
}

// Systemd returns the path of the name's slice below a cgroup mount, as in
// "/kubepods.slice/kubepods-burstable.slice"; the root is "/".
func (n Name) Systemd() string {
	var b strings.Builder
	prefix := ""
	for _, p := range n.escaped() {
		b.WriteString("/" + prefix + p + sliceSuffix)
		prefix += p + "-"
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

func (n Name) escaped() []string {
	out := make([]string, len(n.parts))
	for i, p := range n.parts {
		out[i] = strings.ReplaceAll(p, "-", "_")
	}
	return out
}

// String returns the cgroupfs spelling.
func (n Name) String() string { return n.Cgroupfs() }

// UID returns the UID of the pod whose cgroup this is; ok is false for any
// other cgroup.
func (n Name) UID() (uid types.UID, ok bool) {
	u, ok := strings.CutPrefix(n.Base(), podPrefix)
	return types.UID(u), ok && u != ""
}

// ParseCgroupfs reads the cgroupfs spelling. It is strict: the path is absolute
// and clean.
func ParseCgroupfs(p string) (Name, error) {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p {
		return Name{}, &NameError{Part: p, Why: "not an absolute clean path"}
	}
	if p == "/" {
		return Name{}, nil
	}
	return NewName(strings.Split(p[1:], "/")...)
}

// ParseSlice reads systemd's spelling of a unit, the counterpart of Name.Slice.
func ParseSlice(unit string) (Name, error) {
	inner, ok := strings.CutSuffix(unit, sliceSuffix)
	switch {
	case !ok:
		return Name{}, &NameError{Part: unit, Why: "does not end in .slice"}
	case strings.Contains(unit, "/"):
		return Name{}, &NameError{Part: unit, Why: "a slice's name has no '/'"}
	case inner == "-":
		return Name{}, nil
	}
	parts := strings.Split(inner, "-")
	for i, p := range parts {
		if p == "" {
			return Name{}, &NameError{Part: unit, Why: "a slice's name has no empty level"}
		}
		parts[i] = strings.ReplaceAll(p, "_", "-")
	}
	return NewName(parts...)
}

// ParseSystemd reads the path of a slice, the counterpart of Name.Systemd. Each
// element must be the slice that the one after it is nested in.
func ParseSystemd(p string) (Name, error) {
	if p == "/" {
		return Name{}, nil
	}
	n, err := ParseSlice(path.Base(p))
	if err != nil {
		return Name{}, err
	}
	if want := n.Systemd(); want != p {
		return Name{}, &NameError{Part: p, Why: "the slice's path would be " + want}
	}
	return n, nil
}

// TierName returns the name of the cgroup that holds the pods of a QoS class:
// that of root itself for Guaranteed.
func TierName(root Name, qos corev1.PodQOSClass) (Name, error) {
	switch qos {
	case corev1.PodQOSGuaranteed:
		return root, nil
	case corev1.PodQOSBurstable:
		return root.Child(BurstablePart)
	case corev1.PodQOSBestEffort:
		return root.Child(BestEffortPart)
	default:
		return Name{}, &NameError{Part: string(qos), Why: "not a QoS class"}
	}
}

// PodName returns the name of a pod's cgroup. root is the cgroup of all pods,
// usually /kubepods. A UID that cannot be part of a name is a *NameError.
func PodName(root Name, qos corev1.PodQOSClass, uid types.UID) (Name, error) {
	tier, err := TierName(root, qos)
	if err != nil {
		return Name{}, err
	}
	if uid == "" {
		return Name{}, &NameError{Part: podPrefix, Why: "the pod has no UID"}
	}
	return tier.Child(podPrefix + string(uid))
}

// Driver is a way to spell cgroups and to make them.
type Driver string

// The drivers.
const (
	// Cgroupfs makes directories.
	Cgroupfs Driver = "cgroupfs"
	// Systemd asks systemd for slices, for hosts where it owns the tree.
	Systemd Driver = "systemd"
)

// Path returns the name in the driver's spelling as a path below a cgroup
// mount. It is also what CRI's cgroup_parent wants of both drivers: containerd,
// CRI-O and cri-dockerd take the last element of a path of slices.
func (d Driver) Path(n Name) string {
	if d == Systemd {
		return n.Systemd()
	}
	return n.Cgroupfs()
}

// parse is the counterpart of one element of Path: the directory entry base
// below parent.
func (d Driver) parse(parent Name, base string) (Name, error) {
	if d == Systemd {
		n, err := ParseSlice(base)
		if err != nil {
			return Name{}, err
		}
		if len(n.parts) != len(parent.parts)+1 {
			return Name{}, &NameError{Part: base, Why: "not directly below " + parent.Slice()}
		}
		return n, nil
	}
	return parent.Child(base)
}
