package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

// makeSandboxConfig builds the configuration of the pod's sandbox: of the one to
// create, or again of the one that is there, which goes with each container.
func (x *executor) makeSandboxConfig(ctx context.Context) error {
	host, err := readResolvConf(x.node.ResolvConfPath())
	if err != nil {
		return podsync.WithReason(ReasonFailedCreatePodSandBox, err)
	}
	dns, warnings := config.DNS(x.pod, &x.node, host)
	for _, w := range warnings {
		x.s.Warn(w.Reason, "%s", w.Message)
	}
	in := config.SandboxInput{Pod: x.pod, Node: &x.node, Attempt: x.act.Attempt, DNS: dns,
		Annotations: podsync.ExtraAnnotations.Get(x.s)}
	in.CgroupParent, _ = podsync.CgroupParent.Get(x.s)
	if v, ok := podsync.PodVolumes.Get(x.s); ok && v != nil {
		in.SupplementalGroups = v.SupplementalGroups()
	}
	if x.users, err = x.userNamespace(ctx); err != nil {
		return podsync.WithReason(ReasonFailedCreatePodSandBox, err)
	}
	in.UserNamespace = x.users
	x.boxConfig, err = config.Sandbox(in)
	if err != nil {
		if x.act.CreateSandbox {
			x.s.Warn(ReasonFailedCreatePodSandBox, "%s", err)
		}
		return podsync.WithReason(ReasonFailedCreatePodSandBox, err)
	}
	x.boxConfig.Labels[OwnerLabel] = x.r.o.Owner
	delete(x.boxConfig.Annotations, ResourcesAnnotation) // the pod's own of that name says nothing
	if x.pod.Spec.Resources == nil {
		return nil
	}
	if x.boxConfig.Annotations == nil {
		x.boxConfig.Annotations = map[string]string{}
	}
	x.boxConfig.Annotations[ResourcesAnnotation], err = encodeResources(x.pod.Spec.Resources)
	return err
}

// userNamespace returns the pod's id mapping, nil when it has none.
func (x *executor) userNamespace(ctx context.Context) (*runtimeapi.UserNamespace, error) {
	if x.r.o.UserNamespace == nil || x.pod.Spec.HostUsers == nil || *x.pod.Spec.HostUsers {
		return nil, nil
	}
	u, err := x.r.o.UserNamespace(ctx, x.pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s: user namespace: %w", x.s.Ref(), err)
	}
	return u, nil
}

func readResolvConf(path string) (*config.ResolvConf, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolver configuration of the node: %w", err)
	}
	defer f.Close()
	rc, err := config.ParseResolvConf(f)
	if err != nil {
		return nil, fmt.Errorf("resolver configuration of the node, %s: %w", path, err)
	}
	return rc, nil
}

// createSandbox makes the sandbox and learns its addresses. A sandbox that is
// made while the pod is asked to stop is left to the terminating phase.
func (x *executor) createSandbox(ctx context.Context) error {
	if err := os.MkdirAll(x.boxConfig.LogDirectory, 0o755); err != nil {
		x.s.Warn(ReasonFailedCreateLogDir, "%s", err)
		return podsync.WithReason(ReasonFailedCreateLogDir, fmt.Errorf("pod %s: log directory: %w", x.s.Ref(), err))
	}
	x.changed = true
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, st := range x.starts {
			x.prepare(st)
		}
	})
	defer wg.Wait()
	err := x.r.heavy(ctx, sandboxTimeoutMultiplier*x.r.o.CallTimeout, func(ctx context.Context) error {
		id, err := x.r.o.Runtime.RunPodSandbox(ctx, x.boxConfig, x.handler)
		x.sandboxID = id
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		err = plainly(fmt.Sprintf("create sandbox of pod %s", x.s.Ref()), err)
		x.s.Warn(ReasonFailedCreatePodSandBox, "%s", err)
		return podsync.WithReason(ReasonFailedCreatePodSandBox, err)
	}
	x.done.SandboxCreated = true
	x.parts().sandboxes = append(x.parts().sandboxes, &runtimeapi.PodSandbox{Id: x.sandboxID, Labels: x.boxConfig.Labels})
	x.r.mon.expect(x.pod.UID, x.sandboxID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	if x.pod.Spec.HostNetwork {
		return nil
	}
	cctx, cancel := x.r.quick(ctx)
	defer cancel()
	resp, err := x.r.o.Runtime.PodSandboxStatus(cctx, x.sandboxID, false)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = plainly(fmt.Sprintf("status of the new sandbox %s of pod %s", short(x.sandboxID), x.s.Ref()), err)
		x.s.Warn(ReasonFailedPodSandBoxStatus, "%s", err)
		return podsync.WithReason(ReasonFailedPodSandBoxStatus, err)
	}
	st := resp.GetStatus()
	if st.GetNetwork() != nil && st.Network.Ip == "" {
		err := fmt.Errorf("pod %s: the new sandbox %s has no address", x.s.Ref(), short(x.sandboxID))
		x.s.Warn(ReasonFailedCreatePodSandBox, "%s", err)
		return podsync.WithReason(ReasonFailedCreatePodSandBox, err)
	}
	if st != nil {
		x.ips = config.ParseSandboxStatus(st).IPs
	}
	return nil
}
