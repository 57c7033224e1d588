package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// EnvInput is what a container's environment is made of.
type EnvInput struct {
	// Pod and Container are required.
	Pod       *corev1.Pod
	Container *corev1.Container
	// Node is the node; nil is the zero Node.
	Node *Node
	// PodIPs are the pod's addresses in this run, primary first.
	PodIPs []string
	// Objects gives config maps and secrets; nil makes every required reference
	// an error.
	Objects podsync.Objects
	// Services are the services whose addresses the container is told, in the
	// pod's namespace and default/kubernetes; nil for none. The pod's
	// enableServiceLinks decides which are used, nil counting as true.
	Services []*corev1.Service
	// ReadVolumeFile reads a file below a volume of the pod, for fileKeyRef;
	// it must not follow links out of the volume and must bound the size. nil
	// makes fileKeyRef an error.
	ReadVolumeFile func(ctx context.Context, volume, path string) ([]byte, error)
	// Extra are a site's additions; the pod's own win over them.
	Extra []podsync.ExtraEnvVar
}

// Env returns the environment of a container. The order is that of the spec:
// envFrom with the keys of each source sorted, env, a site's additions, then
// service addresses sorted by name; a name that is defined twice keeps its
// first place and its last value. The kubelet's order is random.
//
// $(NAME) in a value refers to earlier entries, envFrom, a site's additions and
// services; what valueFrom gives is not expanded.
//
// A reference that cannot be resolved and is not optional is an error whose
// reason is CreateContainerConfigError; so is an object that could not be read,
// even if optional. The end of ctx is returned as it is.
func Env(ctx context.Context, in EnvInput) ([]*runtimeapi.KeyValue, error) {
	b := &envBuilder{in: &in, node: in.Node.orZero()}
	for i := range in.Container.EnvFrom {
		if err := b.from(ctx, &in.Container.EnvFrom[i]); err != nil {
			return nil, b.fail(ctx, fmt.Sprintf("envFrom[%d]", i), err)
		}
	}
	b.site, b.services = siteEnv(&in), serviceEnv(&in)
	for i := range in.Container.Env {
		e := &in.Container.Env[i]
		if err := b.one(ctx, e); err != nil {
			return nil, b.fail(ctx, "env "+strconv.Quote(e.Name), err)
		}
	}
	for _, list := range [][]envVar{b.site, b.services} {
		for _, e := range list {
			if !b.has(e.name) {
				b.set(e.name, []byte(e.value))
			}
		}
	}
	for _, kv := range b.out {
		if err := checkEnv(kv); err != nil {
			return nil, b.fail(ctx, "env "+strconv.Quote(kv.Key), err)
		}
	}
	return b.out, nil
}

// envVar is a variable that is known before the container's own are.
type envVar struct{ name, value string }

// envBuilder collects a container's environment.
type envBuilder struct {
	in   *EnvInput
	node *Node
	out  []*runtimeapi.KeyValue
	// index finds a name in out once that is worth a map.
	index          map[string]int
	site, services []envVar
	configMaps     map[string]*corev1.ConfigMap
	secrets        map[string]*corev1.Secret
}

// indexFrom is the number of variables from which on a map is faster.
const indexFrom = 16

func (b *envBuilder) find(name string) int {
	if b.index != nil {
		if i, ok := b.index[name]; ok {
			return i
		}
		return -1
	}
	for i, kv := range b.out {
		if kv.Key == name {
			return i
		}
	}
	return -1
}

func (b *envBuilder) has(name string) bool { return b.find(name) >= 0 }

func (b *envBuilder) set(name string, value []byte) {
	if i := b.find(name); i >= 0 {
		b.out[i].Value = value
		return
	}
	b.out = append(b.out, &runtimeapi.KeyValue{Key: name, Value: value})
	switch {
	case b.index != nil:
		b.index[name] = len(b.out) - 1
	case len(b.out) == indexFrom:
		b.index = make(map[string]int, 4*indexFrom)
		for i, kv := range b.out {
			b.index[kv.Key] = i
		}
	}
}

// lookup finds what $(name) refers to at this point.
func (b *envBuilder) lookup(name string) (string, bool) {
	if i := b.find(name); i >= 0 {
		return string(b.out[i].Value), true
	}
	for _, list := range [][]envVar{b.site, b.services} {
		for _, e := range list {
			if e.name == name {
				return e.value, true
			}
		}
	}
	return "", false
}

// fail says where in the spec err arose. The end of ctx is no fault of the spec.
func (b *envBuilder) fail(ctx context.Context, where string, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return inContainer(b.in.Pod, b.in.Container.Name, fmt.Errorf("%s: %w", where, err))
}

// from adds the variables of one envFrom entry.
func (b *envBuilder) from(ctx context.Context, f *corev1.EnvFromSource) error {
	switch {
	case f.ConfigMapRef != nil:
		cm, err := b.configMap(ctx, f.ConfigMapRef.Name, isTrue(f.ConfigMapRef.Optional))
		if err != nil || cm == nil {
			return err
		}
		for _, k := range sortedKeys(cm.Data) {
			b.set(f.Prefix+k, []byte(cm.Data[k]))
		}
	case f.SecretRef != nil:
		s, err := b.secret(ctx, f.SecretRef.Name, isTrue(f.SecretRef.Optional))
		if err != nil || s == nil {
			return err
		}
		for _, k := range sortedKeys(s.Data) {
			b.set(f.Prefix+k, s.Data[k])
		}
	}
	return nil
}

// one adds one env entry.
func (b *envBuilder) one(ctx context.Context, e *corev1.EnvVar) error {
	if e.Value != "" || e.ValueFrom == nil {
		b.set(e.Name, []byte(Expand(e.Value, b.lookup)))
		return nil
	}
	v, ok, err := b.valueFrom(ctx, e.ValueFrom)
	if err == nil && ok {
		b.set(e.Name, v)
	}
	return err
}

// valueFrom resolves a reference. ok is false for an optional one that leads
// nowhere: the variable is then not defined by it.
func (b *envBuilder) valueFrom(ctx context.Context, f *corev1.EnvVarSource) (v []byte, ok bool, err error) {
	switch {
	case f.FieldRef != nil:
		s, err := fieldValue(f.FieldRef.FieldPath, b.in.Pod, b.node, b.in.PodIPs)
		return []byte(s), err == nil, err
	case f.ResourceFieldRef != nil:
		s, err := resourceValue(f.ResourceFieldRef, b.in.Pod, b.in.Container, b.node)
		return []byte(s), err == nil, err
	case f.ConfigMapKeyRef != nil:
		return b.configMapKey(ctx, f.ConfigMapKeyRef)
	case f.SecretKeyRef != nil:
		return b.secretKey(ctx, f.SecretKeyRef)
	case f.FileKeyRef != nil:
		return b.fileKey(ctx, f.FileKeyRef)
	default:
		return nil, true, nil // an empty valueFrom is an empty value
	}
}

func (b *envBuilder) configMapKey(ctx context.Context, r *corev1.ConfigMapKeySelector) ([]byte, bool, error) {
	optional := isTrue(r.Optional)
	cm, err := b.configMap(ctx, r.Name, optional)
	if err != nil || cm == nil {
		return nil, false, err
	}
	v, ok := cm.Data[r.Key]
	if !ok && !optional {
		return nil, false, fmt.Errorf("config map %s/%s has no key %q", b.in.Pod.Namespace, r.Name, r.Key)
	}
	return []byte(v), ok, nil
}

func (b *envBuilder) secretKey(ctx context.Context, r *corev1.SecretKeySelector) ([]byte, bool, error) {
	optional := isTrue(r.Optional)
	s, err := b.secret(ctx, r.Name, optional)
	if err != nil || s == nil {
		return nil, false, err
	}
	v, ok := s.Data[r.Key]
	if !ok && !optional {
		return nil, false, fmt.Errorf("secret %s/%s has no key %q", b.in.Pod.Namespace, r.Name, r.Key)
	}
	return v, ok, nil
}

func (b *envBuilder) fileKey(ctx context.Context, r *corev1.FileKeySelector) ([]byte, bool, error) {
	if b.in.ReadVolumeFile == nil {
		return nil, false, errors.New("fileKeyRef: this agent reads no files of volumes")
	}
	data, err := b.in.ReadVolumeFile(ctx, r.VolumeName, r.Path)
	if err != nil {
		return nil, false, fmt.Errorf("fileKeyRef: file %q of volume %q: %w", r.Path, r.VolumeName, err)
	}
	v, ok, err := parseEnvFile(data, r.Key)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("fileKeyRef: file %q of volume %q: %w", r.Path, r.VolumeName, err)
	case !ok && !isTrue(r.Optional):
		return nil, false, fmt.Errorf("fileKeyRef: file %q of volume %q has no key %q", r.Path, r.VolumeName, r.Key)
	}
	return []byte(v), ok, nil
}

// configMap returns a config map once per call of Env; nil and no error for an
// optional one that does not exist.
func (b *envBuilder) configMap(ctx context.Context, name string, optional bool) (*corev1.ConfigMap, error) {
	if cm, ok := b.configMaps[name]; ok {
		return cm, nil
	}
	if b.in.Objects == nil {
		return nil, b.noObjects("config map", name, optional)
	}
	cm, err := b.in.Objects.ConfigMap(ctx, b.in.Pod.Namespace, name)
	if err != nil {
		if optional && errors.Is(err, podsync.ErrNotFound) {
			return nil, nil
		}
		return nil, fmt.Errorf("config map %s/%s: %w", b.in.Pod.Namespace, name, err)
	}
	if b.configMaps == nil {
		b.configMaps = map[string]*corev1.ConfigMap{}
	}
	b.configMaps[name] = cm
	return cm, nil
}

// secret is configMap for secrets.
func (b *envBuilder) secret(ctx context.Context, name string, optional bool) (*corev1.Secret, error) {
	if s, ok := b.secrets[name]; ok {
		return s, nil
	}
	if b.in.Objects == nil {
		return nil, b.noObjects("secret", name, optional)
	}
	s, err := b.in.Objects.Secret(ctx, b.in.Pod.Namespace, name)
	if err != nil {
		if optional && errors.Is(err, podsync.ErrNotFound) {
			return nil, nil
		}
		return nil, fmt.Errorf("secret %s/%s: %w", b.in.Pod.Namespace, name, err)
	}
	if b.secrets == nil {
		b.secrets = map[string]*corev1.Secret{}
	}
	b.secrets[name] = s
	return s, nil
}

func (b *envBuilder) noObjects(kind, name string, optional bool) error {
	if optional {
		return nil
	}
	return fmt.Errorf("%s %s/%s: this agent has no source of API objects", kind, b.in.Pod.Namespace, name)
}

// checkEnv refuses what no process can be given.
func checkEnv(kv *runtimeapi.KeyValue) error {
	switch {
	case kv.Key == "":
		return errors.New("a variable has no name")
	case strings.ContainsAny(kv.Key, "=\x00"):
		return errors.New("the name holds a character that a process cannot be given")
	case bytes.IndexByte(kv.Value, 0) >= 0:
		return errors.New("the value holds a NUL byte")
	}
	return nil
}

func siteEnv(in *EnvInput) []envVar {
	var list []envVar
	for _, e := range in.Extra {
		if e.Container == "" || e.Container == in.Container.Name {
			list = append(list, envVar{e.Name, e.Value})
		}
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
