package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// startOne is a container to start in this run.
type startOne struct {
	plan.Start
	c *corev1.Container
	// exited is when the newest instance exited; zero when it did not.
	exited time.Time
	// targetName is whose processes an ephemeral container joins.
	targetName string
	// files is what prepare made; nil before.
	files *instanceFiles
}

// instanceFiles are what one instance of a container has on the host's disk
// before it is made.
type instanceFiles struct {
	restarts    int
	termination string
	err         error
}

// spec returns the container that a Start means.
func (x *executor) spec(s plan.Start) *startOne {
	st := &startOne{Start: s}
	switch s.Kind {
	case plan.Ephemeral:
		e := &x.pod.Spec.EphemeralContainers[s.Index]
		st.c, st.targetName = config.Ephemeral(e), e.TargetContainerName
	case plan.Init, plan.Sidecar:
		st.c = &x.pod.Spec.InitContainers[s.Index]
	default:
		st.c = &x.pod.Spec.Containers[s.Index]
	}
	if rc := x.rt.Container(s.Name); rc != nil && rc.State == podsync.ContainerExited {
		st.exited = rc.FinishedAt
	}
	return st
}

// chooseStarts leaves out the containers that have to wait for their crash-loop
// backoff, and all after an init container that has.
func (x *executor) chooseStarts() {
	for _, s := range x.act.Start {
		st := x.spec(s)
		if x.backsOff(st.c, st.exited) {
			if s.Kind == plan.Init {
				return
			}
			continue
		}
		x.starts = append(x.starts, st)
	}
}

// backsOff tells whether a container that exited then has to wait, and says so.
func (x *executor) backsOff(c *corev1.Container, exited time.Time) bool {
	if exited.IsZero() {
		return false
	}
	left, delay := x.r.crash.wait(x.pod, c, exited)
	if left <= 0 {
		return false
	}
	x.s.Warn(ReasonBackOff, "Back-off restarting failed container %s in pod %s", c.Name, x.s.Ref())
	x.wait(c.Name, ReasonCrashLoopBackOff, "back-off %s restarting failed container=%s pod=%s", delay, c.Name, x.s.Ref())
	x.lookAgain(left)
	return true
}

// holdRestartAll tells whether the reset of the pod has to wait, as a restart
// of the container that asked for it would.
func (x *executor) holdRestartAll() bool {
	c, rc := findContainer(x.pod, x.act.Source), x.rt.Container(x.act.Source)
	if c == nil || rc == nil {
		return false
	}
	if x.backsOff(c, rc.FinishedAt) {
		return true
	}
	x.r.crash.next(x.pod, c, rc.FinishedAt)
	x.s.Event(corev1.EventTypeNormal, ReasonRestartAllContainersEvent, "Container %s exited with %d: all containers are restarted", c.Name, rc.ExitCode)
	return false
}

// prefetch begins to get the images of what is to be started, so that they come
// while the sandbox is made.
func (x *executor) prefetch(ctx context.Context) {
	reqs := make([]images.Request, 0, len(x.starts))
	for _, st := range x.starts {
		if !x.blocked[st.c.Name] {
			reqs = append(reqs, x.imageRequest(st.c.Name, st.c.Image, st.c.ImagePullPolicy))
		}
	}
	x.fetch = x.r.pull.Prefetch(ctx, reqs)
}

func (x *executor) imageRequest(name, image string, policy corev1.PullPolicy) images.Request {
	secrets, _ := podsync.PullSecrets.Get(x.s)
	return images.Request{Pod: x.pod, Container: name, Image: image, Policy: policy, Secrets: secrets,
		SandboxConfig: x.boxConfig, RuntimeHandler: x.handler, Events: x.s.Event}
}

// start makes one container and starts it. The error it returns is noted
// already.
func (x *executor) start(ctx context.Context, st *startOne) error {
	img, err := x.fetch.Ensure(ctx, x.imageRequest(st.c.Name, st.c.Image, st.c.ImagePullPolicy))
	if err != nil {
		return x.imageFailed(ctx, st.c.Name, err)
	}
	cfg, err := x.containerConfig(ctx, st, config.Image(img))
	if err != nil {
		return x.failed(ctx, st, ReasonCreateContainerConfigError, err)
	}
	if !st.exited.IsZero() {
		x.r.crash.next(x.pod, st.c, st.exited)
	}
	var id string
	x.changed = true
	err = x.r.heavy(ctx, x.r.o.CallTimeout, func(ctx context.Context) (err error) {
		id, err = x.r.o.Runtime.CreateContainer(ctx, x.sandboxID, cfg, x.boxConfig)
		return err
	})
	if err != nil {
		return x.failed(ctx, st, ReasonCreateContainerError, err)
	}
	x.parts().containers = append(x.parts().containers, &runtimeapi.Container{Id: id, PodSandboxId: x.sandboxID, Labels: cfg.Labels})
	x.s.Event(corev1.EventTypeNormal, ReasonCreated, "Created container %s", st.c.Name)
	x.r.mon.expect(x.pod.UID, id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	if err := ctx.Err(); err != nil {
		return err
	}
	err = x.r.heavy(ctx, x.r.o.CallTimeout, func(ctx context.Context) error {
		return x.r.o.Runtime.StartContainer(ctx, id)
	})
	if err != nil {
		return x.failed(ctx, st, ReasonRunContainerError, err)
	}
	x.s.Event(corev1.EventTypeNormal, ReasonStarted, "Started container %s", st.c.Name)
	x.done.Started = append(x.done.Started, st.c.Name)
	x.linkLog(ctx, st.c.Name, id, cfg.LogPath)
	if st.c.Lifecycle != nil && st.c.Lifecycle.PostStart != nil {
		return x.postStart(ctx, st, id)
	}
	return nil
}

// failed notes that a container could not be made or started.
func (x *executor) failed(ctx context.Context, st *startOne, reason string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.s.Warn(ReasonFailed, "Error: %s", words(err))
	x.wait(st.c.Name, reason, "%s", words(err))
	err = podsync.WithReason(reason, fmt.Errorf("container %s: %w", st.c.Name, err))
	x.errs = append(x.errs, err)
	return err
}

// imageFailed notes that a container's image is not there. That is no error of
// the run: the image is looked at again when its backoff is over.
func (x *executor) imageFailed(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.done.PullFailed = true
	var ie *images.Error
	if !errors.As(err, &ie) {
		x.wait(name, images.ReasonErrImagePull, "%s", words(err))
		x.errs = append(x.errs, podsync.WithReason(images.ReasonErrImagePull, err))
		return err
	}
	x.s.Warn(ReasonFailed, "Error: %s", ie.Reason())
	x.wait(name, ie.Reason(), "%s", ie.Error())
	if d := ie.RetryAfter(); d > 0 {
		x.lookAgain(d)
	} else {
		// Nothing that time alone would mend (an image that must not be pulled, a
		// name that is none): looked at with the others now and then.
		x.lookAgain(x.r.o.CrashLoopMax)
	}
	return err
}

// containerConfig builds the configuration of the container's next instance,
// and makes the files that it mounts.
func (x *executor) containerConfig(ctx context.Context, st *startOne, img config.Image) (*runtimeapi.ContainerConfig, error) {
	files := x.prepare(st)
	if files.err != nil {
		return nil, files.err
	}
	in := config.ContainerInput{Pod: x.pod, Container: st.c, Node: &x.node, RestartCount: files.restarts, Image: img, UserNamespace: x.users,
		Annotations: podsync.ExtraAnnotations.Get(x.s), CDIDevices: podsync.ExtraCDIDevices.Get(x.s)}
	var err error
	if in.TargetID, err = x.target(st.targetName); err != nil {
		return nil, err
	}
	ips := x.ips
	if x.pod.Spec.HostNetwork {
		ips = x.node.IPs
	}
	env := config.EnvInput{Pod: x.pod, Container: st.c, Node: &x.node, PodIPs: ips, Objects: x.r.o.Objects, Extra: podsync.ExtraEnv.Get(x.s)}
	volumes, haveVolumes := podsync.PodVolumes.Get(x.s)
	if r, ok := volumes.(podsync.VolumeReader); ok {
		env.ReadVolumeFile = r.ReadFile
	}
	if x.r.o.Services != nil {
		if env.Services, err = x.r.o.Services(ctx, x.pod.Namespace); err != nil {
			return nil, fmt.Errorf("services of namespace %s: %w", x.pod.Namespace, err)
		}
	}
	if in.Env, err = config.Env(ctx, env); err != nil {
		return nil, err
	}
	mounts := config.MountsInput{Pod: x.pod, Container: st.c, Env: in.Env, PodIPs: ips, Extra: podsync.ExtraMounts.Get(x.s),
		TerminationFile: files.termination, UserNamespace: x.users,
		RecursiveReadOnly: x.r.o.RecursiveReadOnly != nil && x.r.o.RecursiveReadOnly(x.handler)}
	if haveVolumes && volumes != nil {
		mounts.Volumes, in.SupplementalGroups = volumes, volumes.SupplementalGroups()
	}
	if err := x.hostsFile(&mounts); err != nil {
		return nil, err
	}
	if mounts.Images, err = x.imageVolumes(ctx, st.c); err != nil {
		return nil, err
	}
	if in.Mounts, err = config.Mounts(ctx, mounts); err != nil {
		return nil, err
	}
	cfg, err := config.Container(in)
	if err != nil {
		return nil, err
	}
	cfg.Labels[OwnerLabel] = x.r.o.Owner
	if cfg.Annotations[ResourcesAnnotation], err = encodeResources(&st.c.Resources); err != nil {
		return nil, err
	}
	return cfg, nil
}

// prepare makes the log directory and the termination message file of the
// container's next instance, once. They need no sandbox, so that it is called
// while that is being made.
func (x *executor) prepare(st *startOne) *instanceFiles {
	if st.files != nil {
		return st.files
	}
	f := &instanceFiles{}
	st.files = f
	if f.restarts, f.err = x.restartCount(st.c.Name); f.err != nil {
		return f
	}
	if err := os.MkdirAll(filepath.Join(x.boxConfig.LogDirectory, filepath.Dir(config.LogPath(st.c.Name, f.restarts))), 0o755); err != nil {
		f.err = fmt.Errorf("log directory: %w", err)
		return f
	}
	dirs, ok := podsync.PodDirs.Get(x.s)
	if !ok || dirs.Containers == "" {
		return f
	}
	if f.termination, f.err = config.TerminationFile(dirs.Containers, st.c, f.restarts); f.err == nil && f.termination != "" {
		f.err = config.CreateTerminationFile(dirs.Root, f.termination)
	}
	return f
}

// restartCount returns the number of the container's next instance: one more
// than that of the newest, or by the log files when the runtime has none.
func (x *executor) restartCount(name string) (int, error) {
	if rc := x.rt.Container(name); rc != nil {
		return max(rc.RestartCount, int(rc.Attempt)) + 1, nil
	}
	n, err := config.RestartCountFromLogs(filepath.Join(x.boxConfig.LogDirectory, name))
	if err != nil {
		return 0, fmt.Errorf("restart count by the log files: %w", err)
	}
	return n, nil
}

// target returns the instance whose processes an ephemeral container joins.
func (x *executor) target(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	for _, rc := range x.rt.Containers {
		if rc.Name == name && rc.Running() {
			return rc.ID, nil
		}
	}
	return "", fmt.Errorf("target container %s is not running", name)
}

// hostsFile makes the pod's hosts file, if the pod has a directory for it.
func (x *executor) hostsFile(in *config.MountsInput) error {
	dirs, ok := podsync.PodDirs.Get(x.s)
	if !ok {
		return nil
	}
	in.Dirs = dirs
	if dirs.EtcHosts == "" || x.hostsDone || !config.WantsHostsFile(x.pod, in.Container, in.PodIPs) {
		return nil
	}
	var nodeHosts []byte
	if x.pod.Spec.HostNetwork {
		var err error
		if nodeHosts, err = os.ReadFile(config.EtcHosts); err != nil {
			return fmt.Errorf("hosts file of the node: %w", err)
		}
	}
	content, err := config.HostsFile(x.pod, &x.node, in.PodIPs, nodeHosts)
	if err != nil {
		return err
	}
	if err := config.WriteHostsFile(dirs.EtcHosts, content); err != nil {
		return err
	}
	x.hostsDone = true
	return nil
}

// imageVolumes makes the image volumes that the container mounts present.
func (x *executor) imageVolumes(ctx context.Context, c *corev1.Container) (map[string]*runtimeapi.ImageSpec, error) {
	for i := range x.pod.Spec.Volumes {
		v := &x.pod.Spec.Volumes[i]
		if v.Image == nil || x.imageVols[v.Name] != nil || !mountsVolume(c, v.Name) {
			continue
		}
		img, err := x.r.pull.Ensure(ctx, x.imageRequest(v.Name, v.Image.Reference, v.Image.PullPolicy))
		if err != nil {
			return nil, fmt.Errorf("image volume %s: %w", v.Name, err)
		}
		if x.imageVols == nil {
			x.imageVols = map[string]*runtimeapi.ImageSpec{}
		}
		x.imageVols[v.Name] = &runtimeapi.ImageSpec{Image: img.Ref, UserSpecifiedImage: v.Image.Reference, RuntimeHandler: x.handler}
	}
	return x.imageVols, nil
}

func mountsVolume(c *corev1.Container, volume string) bool {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].Name == volume {
			return true
		}
	}
	return false
}

// linkLog makes the legacy link to the container's log. It is a convenience, so
// that its failure is only logged.
func (x *executor) linkLog(ctx context.Context, name, id, logPath string) {
	if x.r.o.LogLinks == "" {
		return
	}
	link := filepath.Join(x.r.o.LogLinks, config.LogSymlink(x.pod, name, id))
	if err := config.EnsureLogSymlink(filepath.Join(x.boxConfig.LogDirectory, logPath), link); err != nil {
		x.s.Logger().WarnContext(ctx, "link to the container's log", "container", name, "err", err)
	}
}

// postStart runs the hook of a container that was just started, and kills the
// container when it fails.
func (x *executor) postStart(ctx context.Context, st *startOne, id string) error {
	err := x.r.hooks.run(ctx, hookCall{handler: st.c.Lifecycle.PostStart, pod: x.pod, container: st.c, id: id,
		ip: x.r.hookIP(x.pod, x.ips), warn: x.s.Warn})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.s.Warn(ReasonFailedPostStartHook, "PostStartHook of container %s failed", st.c.Name)
	x.wait(st.c.Name, ReasonPostStartHookError, "PostStartHook failed")
	x.s.Logger().InfoContext(ctx, "postStart hook failed; the container is killed", "container", st.c.Name, "err", err)
	kerr := x.stop.stop(ctx, stopOne{id: id, name: st.c.Name, message: "Container " + st.c.Name + " failed its postStart hook",
		grace: plan.Grace(x.pod, st.c, plan.KillPostStartFailed)})
	if kerr != nil && ctx.Err() == nil {
		x.errs = append(x.errs, kerr)
	}
	return err
}
