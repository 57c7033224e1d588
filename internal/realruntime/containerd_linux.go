package realruntime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	internalapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
)

// Containerd is a running private containerd. Its methods may be called from several goroutines.
type Containerd struct {
	config Config
	inst   instance
	claim  net.Listener // of the subnet

	mu      sync.Mutex // guards what follows, and makes Restart, Kill and Stop take turns
	process *Process   // nil when not running
	log     *os.File
	stopped bool
}

// Start starts a containerd of its own and waits until it answers and, unless NoNetwork, its network is ready.
// It sweeps what earlier, dead processes left first; what it cannot sweep is in the log. On error nothing is left.
func Start(ctx context.Context, c Config) (*Containerd, error) {
	c = c.withDefaults()
	if c.SandboxImage == "" {
		return nil, errors.New("start containerd: SandboxImage is not set")
	}
	if c.BinDir == "" {
		dir, err := LocateBin()
		if err != nil {
			return nil, fmt.Errorf("start containerd: %w", err)
		}
		c.BinDir = dir
	}
	sweepErr := SweepStale(ctx)
	r := &Containerd{config: c}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start containerd: %w", err), sweepErr)
	}
	if sweepErr != nil {
		fmt.Fprintf(r.output(), "podsync: %v\n", sweepErr)
	}
	if err := r.boot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start containerd: %w", err), r.Stop(context.WithoutCancel(ctx)), sweepErr)
	}
	return r, nil
}

// prepare makes the root directory and writes all configuration.
func (r *Containerd) prepare(ctx context.Context) error {
	root, err := makeRoot(ctx, r.config.Root)
	if err != nil {
		return err
	}
	r.inst, err = newInstance(root, r.config)
	if err != nil {
		return errors.Join(err, os.RemoveAll(root))
	}
	if r.inst.Subnet, r.claim, err = claimSubnet(); err != nil {
		return errors.Join(err, os.RemoveAll(root))
	}
	if err := r.write(ctx); err != nil {
		r.claim.Close()
		return errors.Join(err, sweep(ctx, r.inst))
	}
	return nil
}

// write stores the instance first: from then on Sweep can undo everything.
func (r *Containerd) write(ctx context.Context) error {
	b, err := json.Marshal(r.inst)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.inst.path(instanceFile), b, 0o600); err != nil {
		return err
	}
	if err := registerHost(ctx, r.inst.Root); err != nil {
		return err
	}
	for _, dir := range []string{r.inst.cniDir(), r.inst.SocketDir, r.inst.path("tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	restrict, err := lacksSysResource()
	if err != nil {
		return err
	}
	conf := containerdConfig(r.inst, settings{SandboxImage: r.config.SandboxImage, RestrictOOM: restrict, Extra: r.config.ExtraConfig})
	if err := os.WriteFile(r.inst.configFile(), []byte(conf), 0o600); err != nil {
		return err
	}
	if r.log, err = os.OpenFile(r.inst.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if r.config.NoNetwork {
		return nil
	}
	return r.EnableNetwork()
}

// makeRoot returns an empty directory: a new one, or the given one after what a dead process left in it is gone.
func makeRoot(ctx context.Context, dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", rootPrefix)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if len(dir) > maxRoot {
		return "", fmt.Errorf("root directory %s: longer than %d bytes, too long for a socket in it", dir, maxRoot)
	}
	if _, err := os.Stat(filepath.Join(dir, instanceFile)); err == nil {
		if err := Sweep(ctx, dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("root directory %s: is not empty (%s)", dir, entries[0].Name())
	}
	return dir, nil
}

// newInstance names everything.
func newInstance(root string, c Config) (instance, error) {
	token := make([]byte, 4)
	_, _ = rand.Read(token) // never fails
	started, err := startTime(os.Getpid())
	if err != nil {
		return instance{}, err
	}
	bin, err := filepath.Abs(c.BinDir)
	if err != nil {
		return instance{}, err
	}
	space, err := pidSpace()
	if err != nil {
		return instance{}, err
	}
	i := instance{PID: os.Getpid(), StartTime: started, PIDSpace: space, Token: hex.EncodeToString(token), Root: root, BinDir: bin, Masquerade: c.Masquerade}
	i.SocketDir = i.path("s")
	if len(i.SocketDir) > maxSocketDir {
		i.SocketDir = filepath.Join("/run", networkPrefix+i.Token)
	}
	return i, nil
}

// boot starts the process and waits until it serves. The caller holds the lock, or is Start.
func (r *Containerd) boot(ctx context.Context) error {
	out := r.output()
	path := r.inst.BinDir + ":" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin"
	p, err := StartProcess(ProcessSpec{
		Path: filepath.Join(r.inst.BinDir, "containerd"), Args: []string{"--config", r.inst.configFile()},
		Env: append(os.Environ(), "PATH="+path), Stdout: out, Stderr: out,
	})
	if err != nil {
		return err
	}
	r.process = p
	ctx, cancel := context.WithTimeout(ctx, r.config.StartTimeout)
	defer cancel()
	if err := r.waitReady(ctx, p); err != nil {
		return fmt.Errorf("%w; the end of its log:\n%s", err, tail(r.inst.logFile(), 2000))
	}
	return nil
}

// output is where the log goes.
func (r *Containerd) output() io.Writer {
	if r.config.Output == nil {
		return r.log
	}
	return io.MultiWriter(r.log, r.config.Output)
}

// waitReady asks for the status until it is good, the process ends, or ctx does.
func (r *Containerd) waitReady(ctx context.Context, p *Process) error {
	var last error
	for {
		if last = r.ready(ctx); last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("containerd ended: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("containerd is not ready: %w (%w)", last, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready is one look at the runtime's status.
func (r *Containerd) ready(ctx context.Context) error {
	if _, err := os.Stat(r.inst.socket()); err != nil {
		return err
	}
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	status, err := client.Status(ctx, false)
	if err != nil {
		return err
	}
	for _, cond := range status.GetStatus().GetConditions() {
		wanted := cond.Type == runtimeapi.RuntimeReady || cond.Type == runtimeapi.NetworkReady && !r.config.NoNetwork
		if wanted && !cond.Status {
			return fmt.Errorf("%s is false: %s %s", cond.Type, cond.Reason, cond.Message)
		}
	}
	return nil
}

// client connects to the runtime.
func (r *Containerd) client(ctx context.Context) (internalapi.RuntimeService, error) {
	return remote.NewRemoteRuntimeServiceBuilder().WithEndpoint(r.Endpoint()).WithConnectionTimeout(5 * time.Second).Build(ctx)
}

// Endpoint is the address of the CRI service: unix:///….
func (r *Containerd) Endpoint() string { return "unix://" + r.inst.socket() }

// Root is the directory of this instance.
func (r *Containerd) Root() string { return r.inst.Root }

// CNIConfDir is the directory that containerd reads CNI configuration from.
func (r *Containerd) CNIConfDir() string { return r.inst.cniDir() }

// CgroupRoot is a cgroup path of this instance's own, like /podsync-1a2b3c4d. Nothing is there yet; pods whose
// parents are put below it are cleaned up by Stop.
func (r *Containerd) CgroupRoot() string { return r.inst.cgroupRoot() }

// Network is the name of the CNI network.
func (r *Containerd) Network() string { return r.inst.network() }

// Subnet is the range of the pods' addresses.
func (r *Containerd) Subnet() string { return r.inst.Subnet.String() }

// PID is the process ID of containerd, 0 when it does not run.
func (r *Containerd) PID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return 0
	}
	return r.process.PID()
}

// Log returns the end of containerd's log, for the message of a failed test.
func (r *Containerd) Log() string { return tail(r.inst.logFile(), 8000) }

// EnableNetwork writes the CNI configuration; containerd takes it up by itself.
func (r *Containerd) EnableNetwork() error {
	b, err := cniConfig(r.inst)
	if err != nil {
		return err
	}
	file := filepath.Join(r.inst.cniDir(), "10-podsync.conflist")
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return fmt.Errorf("enable the network: %w", err)
	}
	return os.Rename(file+".new", file)
}

// DisableNetwork takes the CNI configuration away; the runtime then reports NetworkReady=false.
func (r *Containerd) DisableNetwork() error {
	err := os.Remove(filepath.Join(r.inst.cniDir(), "10-podsync.conflist"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Kill ends containerd with SIGKILL, as a crash does. Pods run on under their shims. [Containerd.Restart]
// starts it again.
func (r *Containerd) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		r.process.Kill()
		r.process = nil
	}
}

// Restart ends containerd if it runs, orderly, starts it again and waits until it is ready. Pods run on.
func (r *Containerd) Restart(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return errors.New("restart containerd: it was stopped for good")
	}
	if r.process != nil {
		r.process.Stop(ctx, 10*time.Second)
		r.process = nil
	}
	if err := r.boot(ctx); err != nil {
		return fmt.Errorf("restart containerd: %w", err)
	}
	return nil
}

// Stop stops and removes all pods, ends containerd and removes everything this instance made: processes,
// mounts, network, cgroups, files. It may be called again, and after Kill. It works within StopTimeout plus a
// few seconds even when ctx has no deadline, and sweeps even when ctx has ended.
func (r *Containerd) Stop(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	var errs []error
	if r.process != nil {
		orderly, cancel := context.WithTimeout(ctx, r.config.StopTimeout)
		if err := r.removePods(orderly); err != nil {
			// What could not be removed in order is swept.
			fmt.Fprintf(r.log, "podsync: remove pods: %v\n", err)
		}
		r.process.Stop(orderly, 5*time.Second)
		cancel()
		r.process = nil
	}
	if r.log != nil {
		r.log.Close()
	}
	sweepCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := sweep(sweepCtx, r.inst); err != nil {
		errs = append(errs, fmt.Errorf("stop containerd: %w", err))
	}
	if r.claim != nil {
		r.claim.Close()
	}
	r.stopped = len(errs) == 0
	return errors.Join(errs...)
}

// removePods stops and removes every sandbox, several at a time.
func (r *Containerd) removePods(ctx context.Context) error {
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	sandboxes, err := client.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	errs := make([]error, len(sandboxes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for n, s := range sandboxes {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := client.StopPodSandbox(ctx, s.Id); err != nil {
				errs[n] = err
				return
			}
			errs[n] = client.RemovePodSandbox(ctx, s.Id)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lacksSysResource tells whether this process is without CAP_SYS_RESOURCE.
func lacksSysResource() (bool, error) {
	const capSysResource = 24
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("read own capabilities: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return false, fmt.Errorf("read own capabilities: %w", err)
			}
			return caps&(1<<capSysResource) == 0, nil
		}
	}
	return false, errors.New("read own capabilities: no CapEff in /proc/self/status")
}

// tail returns the last bytes of a file, or why it cannot.
func tail(file string, limit int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	if len(b) > limit {
		b = b[len(b)-limit:]
	}
	return strings.TrimSpace(string(b))
}
