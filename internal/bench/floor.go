package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync/podspec"
)

// floor is the bare client: it makes the calls that bring up a pod and take it down, and nothing else. What it
// asks for is what the agent asks for, so that the runtime has the same to do.
type floor struct {
	runtime internalapi.RuntimeService
	events  *events
	image   string // the image's id
	dir     string // of volumes and logs
	cgroup  string
	made    int
}

// floorPod is one pod, ready to be asked for.
type floorPod struct {
	uid       types.UID
	sandbox   *runtimeapi.PodSandboxConfig
	container *runtimeapi.ContainerConfig

	sandboxID, containerID string
}

// prepare makes the configurations and directories of pods, which is not measured.
func (f *floor) prepare(n int) ([]*floorPod, error) {
	pods := make([]*floorPod, 0, n)
	for range n {
		f.made++
		name := fmt.Sprintf("floor-%d", f.made)
		p, err := f.pod(name)
		if err != nil {
			return nil, fmt.Errorf("prepare pod %s: %w", name, err)
		}
		pods = append(pods, p)
	}
	return pods, nil
}

func (f *floor) pod(name string) (*floorPod, error) {
	pod := manifest(name, f.image)
	pod.UID = types.UID(name)
	podspec.Default(pod)
	node := &config.Node{Name: nodeName, LogsRoot: filepath.Join(f.dir, "logs")}
	p := &floorPod{uid: pod.UID}
	var err error
	p.sandbox, err = config.Sandbox(config.SandboxInput{Pod: pod, Node: node, CgroupParent: f.cgroup + "/pod" + name,
		DNS: &runtimeapi.DNSConfig{Servers: []string{"127.0.0.1"}}})
	if err != nil {
		return nil, err
	}
	volume, hosts, message := filepath.Join(f.dir, name, "volume"), filepath.Join(f.dir, name, "hosts"), filepath.Join(f.dir, name, "message")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(p.sandbox.LogDirectory, containerName), 0o755); err != nil {
		return nil, err
	}
	for _, file := range []string{hosts, message} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			return nil, err
		}
	}
	p.container, err = config.Container(config.ContainerInput{Pod: pod, Container: &pod.Spec.Containers[0], Node: node,
		Image: config.Image{Ref: f.image}, Mounts: []*runtimeapi.Mount{
			{HostPath: volume, ContainerPath: "/scratch"},
			{HostPath: hosts, ContainerPath: "/etc/hosts"},
			{HostPath: message, ContainerPath: corev1.TerminationMessagePathDefault},
		}})
	return p, err
}

// start brings a pod up.
func (f *floor) start(ctx context.Context, p *floorPod) (err error) {
	if p.sandboxID, err = f.runtime.RunPodSandbox(ctx, p.sandbox, ""); err != nil {
		return fmt.Errorf("floor: run sandbox of pod %s: %w", p.uid, err)
	}
	if p.containerID, err = f.runtime.CreateContainer(ctx, p.sandboxID, p.container, p.sandbox); err != nil {
		return fmt.Errorf("floor: create container of pod %s: %w", p.uid, err)
	}
	if err = f.runtime.StartContainer(ctx, p.containerID); err != nil {
		return fmt.Errorf("floor: start container of pod %s: %w", p.uid, err)
	}
	return nil
}

// stop takes a pod down.
func (f *floor) stop(ctx context.Context, p *floorPod) error {
	if p.sandboxID == "" {
		return nil
	}
	if p.containerID != "" {
		if err := f.runtime.StopContainer(ctx, p.containerID, 2); err != nil {
			return fmt.Errorf("floor: stop container of pod %s: %w", p.uid, err)
		}
		if err := f.runtime.RemoveContainer(ctx, p.containerID); err != nil {
			return fmt.Errorf("floor: remove container of pod %s: %w", p.uid, err)
		}
	}
	if err := f.runtime.StopPodSandbox(ctx, p.sandboxID); err != nil {
		return fmt.Errorf("floor: stop sandbox of pod %s: %w", p.uid, err)
	}
	if err := f.runtime.RemovePodSandbox(ctx, p.sandboxID); err != nil {
		return fmt.Errorf("floor: remove sandbox of pod %s: %w", p.uid, err)
	}
	return nil
}

// one starts a pod and returns how long it took until its container ran.
func (f *floor) one(ctx context.Context, p *floorPod) (time.Duration, error) {
	began := time.Now()
	if err := f.start(ctx, p); err != nil {
		return 0, err
	}
	last, err := f.events.wait(ctx, []types.UID{p.uid})
	return last.Sub(began), err
}

// burst starts pods with so many calls in flight, and returns pods a second.
func (f *floor) burst(ctx context.Context, pods []*floorPod, inFlight int) (float64, error) {
	began := time.Now()
	if err := inTurns(ctx, pods, inFlight, f.start); err != nil {
		return 0, err
	}
	last, err := f.events.wait(ctx, uidsOf(pods))
	return float64(len(pods)) / last.Sub(began).Seconds(), err
}

// teardown takes pods down likewise. It does so too when ctx has ended.
func (f *floor) teardown(ctx context.Context, pods []*floorPod, inFlight int) (float64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	began := time.Now()
	err := inTurns(ctx, pods, inFlight, f.stop)
	return float64(len(pods)) / time.Since(began).Seconds(), err
}

func uidsOf(pods []*floorPod) []types.UID {
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.uid
	}
	return uids
}

// inTurns does something to all pods, so many at a time.
func inTurns(ctx context.Context, pods []*floorPod, inFlight int, do func(context.Context, *floorPod) error) error {
	queue := make(chan *floorPod, len(pods))
	for _, p := range pods {
		queue <- p
	}
	close(queue)
	errs := make([]error, inFlight)
	var wg sync.WaitGroup
	for i := range inFlight {
		wg.Go(func() {
			for p := range queue {
				if errs[i] = errors.Join(errs[i], do(ctx, p)); ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

const (
	nodeName      = "bench"
	namespace     = "bench"
	containerName = "pause"
)

// manifest is the pod that both sides start: one container that does nothing, one volume.
func manifest(name, image string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Namespace, pod.Name = namespace, name
	grace := int64(2)
	pod.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		DNSPolicy:                     corev1.DNSDefault,
		Volumes:                       []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: containerName, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}},
	}
	return pod
}
