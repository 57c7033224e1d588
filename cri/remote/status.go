package remote

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Cgroup drivers.
const (
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

// Status is whether the runtime can run pods.
type Status struct {
	// RuntimeReady and NetworkReady are its two conditions.
	RuntimeReady, NetworkReady bool
	// RuntimeMessage and NetworkMessage say why one is not ready.
	RuntimeMessage, NetworkMessage string
	// Features are what the runtime's handlers can do, by handler name.
	Features map[string]*runtimeapi.RuntimeHandlerFeatures
}

// Status asks the runtime whether it and its network are ready.
func (r *Remote) Status(ctx context.Context) (Status, error) {
	resp, err := r.runtime.Status(ctx, false)
	if err != nil {
		return Status{}, fmt.Errorf("status of the container runtime at %s: %w", r.endpoint, err)
	}
	var s Status
	for _, c := range resp.GetStatus().GetConditions() {
		text := ""
		if !c.Status {
			text = c.Reason
			if c.Message != "" {
				text += ": " + c.Message
			}
		}
		switch c.Type {
		case runtimeapi.RuntimeReady:
			s.RuntimeReady, s.RuntimeMessage = c.Status, text
		case runtimeapi.NetworkReady:
			s.NetworkReady, s.NetworkMessage = c.Status, text
		}
	}
	s.Features = make(map[string]*runtimeapi.RuntimeHandlerFeatures, len(resp.RuntimeHandlers))
	for _, h := range resp.RuntimeHandlers {
		s.Features[h.Name] = h.Features
	}
	return s, nil
}

// CgroupDriver returns the runtime's cgroup driver. A runtime that is too old to
// tell (containerd before 2.0) is asked for its configuration; if that does not
// show it either, the answer is cgroupfs.
func (r *Remote) CgroupDriver(ctx context.Context) (string, error) {
	resp, err := r.runtime.RuntimeConfig(ctx)
	switch {
	case err == nil && resp.GetLinux() != nil:
		if resp.Linux.CgroupDriver == runtimeapi.CgroupDriver_SYSTEMD {
			return CgroupDriverSystemd, nil
		}
		return CgroupDriverCgroupfs, nil
	case err != nil && grpcstatus.Code(err) != codes.Unimplemented:
		return "", fmt.Errorf("cgroup driver of the container runtime at %s: %w", r.endpoint, err)
	}
	st, err := r.runtime.Status(ctx, true)
	if err != nil {
		return "", fmt.Errorf("cgroup driver of the container runtime at %s: %w", r.endpoint, err)
	}
	return driverOf(st.GetInfo()["config"]), nil
}

// driverOf reads the cgroup driver out of containerd's configuration.
func driverOf(config string) string {
	var c struct {
		SystemdCgroup bool `json:"systemdCgroup"`
		Containerd    struct {
			DefaultRuntimeName string `json:"defaultRuntimeName"`
			Runtimes           map[string]struct {
				Options struct{ SystemdCgroup bool } `json:"options"`
			} `json:"runtimes"`
		} `json:"containerd"`
	}
	if json.Unmarshal([]byte(config), &c) != nil {
		return CgroupDriverCgroupfs
	}
	if c.SystemdCgroup || c.Containerd.Runtimes[c.Containerd.DefaultRuntimeName].Options.SystemdCgroup {
		return CgroupDriverSystemd
	}
	return CgroupDriverCgroupfs
}
