// Program rundemo is what `make run` runs: it brings the demo pod up on a real, private containerd by the
// example agent, shows its status and the answer of its web server, and after Ctrl-C takes all of it down
// again and checks that nothing was left on the machine. Without root or Linux the same manifests run on the
// agent's in-memory runtime.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/podsync/sdk/internal/realruntime"
)

// options are the command line.
type options struct {
	manifests string        // directory with the pods, and objects/ with what they refer to
	agent     string        // the agent program
	registry  string        // address of the registry
	listen    string        // address of the agent's HTTP API
	timeout   time.Duration // for the pods to run, and for them to go
	verbosity int           // of the agent
	once      bool          // do not wait for Ctrl-C
	shared    bool          // others start pods on this machine meanwhile: check only what this run made
	memory    bool          // use the in-memory runtime even where a real one could run
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // when nobody reads any more, all is still taken down
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rundemo:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("rundemo", flag.ContinueOnError)
	fs.StringVar(&o.manifests, "manifests", "examples/manifests", "directory of pod manifests; its folder objects has the config maps and secrets")
	fs.StringVar(&o.agent, "agent", "", "the agent program; default edgeagent among the programs of `make runtime`")
	fs.StringVar(&o.registry, "registry", manifestRegistry, "address to serve the demo images on; the manifests are changed to it")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:5056", "address of the agent's HTTP API")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long the pods may take to run, and to go")
	fs.IntVar(&o.verbosity, "v", 2, "the agent's log level; at 2 it logs each stage")
	fs.BoolVar(&o.once, "once", false, "take everything down again without waiting for Ctrl-C")
	fs.BoolVar(&o.shared, "shared", false, "others start pods on this machine meanwhile: look in the end only for what this run made")
	fs.BoolVar(&o.memory, "memory", false, "use the in-memory runtime")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, nil
}

// demo is a run: what was started, and how to undo it.
type demo struct {
	options
	out     io.Writer
	bin     string
	dir     string // of this run: manifests, objects, root, logs
	agent   *agent
	node    *realruntime.Containerd // nil on the in-memory runtime
	address string                  // of the registry
}

// say prints a headline of the program's own, to be told from the agent's log.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "\n==> "+format+"\n", args...)
}

// run does everything and, in the end, undoes everything, whatever happened between.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	out = &locked{out: out} // the agent's log goes there too
	d := &demo{options: o, out: out}
	if d.bin, err = realruntime.LocateBin(); err != nil {
		return err
	}
	if d.options.agent == "" {
		d.options.agent = filepath.Join(d.bin, "edgeagent")
	}
	why := realruntime.Missing()
	if why == "" && o.memory {
		why = "asked to"
	}
	if why != "" {
		fmt.Fprintf(out, "No real container runtime here (%s): running the manifests on the in-memory runtime.\n", why)
		return d.onMemory(ctx)
	}
	return d.onContainerd(ctx)
}

// onMemory runs the manifests on the runtime inside the agent.
func (d *demo) onMemory(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, removeAll(d.dir)) }()
	if err := d.prepare("", manifestRegistry); err != nil {
		return err
	}
	return d.pods(ctx, "--runtime-endpoint", "memory", "--cgroup-root", "none")
}

// onContainerd starts registry and containerd, runs the manifests and checks what was left.
func (d *demo) onContainerd(ctx context.Context) error {
	before, err := realruntime.TakeSnapshot()
	if err != nil {
		return err
	}
	err = d.withRuntime(ctx)
	look := before.Leaks
	if d.shared && d.node != nil {
		look = func() ([]string, error) { return d.node.Leaks() }
	}
	leaks, leakErr := settled(look)
	if leakErr != nil {
		return errors.Join(err, leakErr)
	}
	d.say("Left on the machine: sandboxes, mounts, cgroups, network namespaces, interfaces, processes, files")
	if len(leaks) == 0 {
		fmt.Fprintln(d.out, "none")
		return err
	}
	for _, l := range leaks {
		fmt.Fprintln(d.out, l)
	}
	return errors.Join(err, fmt.Errorf("%d things were left behind", len(leaks)))
}

// settled looks until nothing is left, for at most two seconds: other programs come and go too.
func settled(look func() ([]string, error)) ([]string, error) {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		leaks, err := look()
		if err != nil || len(leaks) == 0 || time.Now().After(deadline) {
			return leaks, err
		}
	}
}

// withRuntime runs the manifests on a containerd of their own.
func (d *demo) withRuntime(ctx context.Context) (err error) {
	cleanup := context.WithoutCancel(ctx)
	d.say("Registry")
	registry, err := realruntime.StartRegistry(ctx, realruntime.RegistryConfig{Address: freeAddress(d.registry), Password: password})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Stop(cleanup)) }()
	fmt.Fprintf(d.out, "demo images on %s; those below private/ need a pull secret\n", registry.Address)

	d.say("containerd")
	begin := time.Now()
	d.node, err = realruntime.Start(ctx, realruntime.Config{BinDir: d.bin, SandboxImage: registry.Image("pause:3.10"), Masquerade: true})
	if err != nil {
		return err
	}
	defer func() {
		d.say("Stopping containerd")
		err = errors.Join(err, d.node.Stop(cleanup))
	}()
	fmt.Fprintf(d.out, "ready after %d ms at %s, pods get addresses of %s\n", time.Since(begin).Milliseconds(), d.node.Endpoint(), d.node.Subnet())

	defer func() { err = errors.Join(err, removeAll(d.dir)) }()
	if err := d.prepare(d.node.Root(), registry.Address); err != nil {
		return err
	}
	return d.pods(ctx, "--runtime-endpoint", d.node.Endpoint(), "--cgroup-root", d.node.CgroupRoot(), "--cgroup-driver", "auto")
}

// pods runs the agent until the pods are up, shows them, waits for Ctrl-C and has them taken down.
func (d *demo) pods(ctx context.Context, args ...string) (err error) {
	d.say("Agent")
	if d.agent, err = startAgent(d, args); err != nil {
		return err
	}
	defer func() {
		d.say("Stopping the agent")
		d.agent.process.Stop(context.WithoutCancel(ctx), 20*time.Second)
	}()
	err = d.show(ctx)
	if err == nil && !d.once {
		d.say("Ctrl-C stops the pods and removes everything")
		select {
		case <-ctx.Done():
		case <-d.agent.process.Done():
			return fmt.Errorf("the agent ended: %w", d.agent.process.Err())
		}
	}
	if ctx.Err() != nil {
		err = nil // Ctrl-C is how this ends
	}
	if d.agent.ended() {
		return err
	}
	d.say("Removing the manifests; the agent stops the pods")
	return errors.Join(err, d.takeDown(context.WithoutCancel(ctx)))
}

// show waits until the pods run and prints what there is to see.
func (d *demo) show(ctx context.Context) error {
	pods, err := d.agent.waitRunning(ctx, d.timeout)
	if len(pods) > 0 {
		d.say("Status")
		if err := printPods(d.out, pods, time.Now()); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for _, p := range pods {
		if trace, err := d.agent.explain(ctx, string(p.UID)); err == nil {
			d.say("The pod's last run, stage by stage")
			fmt.Fprint(d.out, trace)
		}
	}
	if d.node == nil {
		return nil
	}
	for _, p := range pods {
		for _, url := range webAddresses(p) {
			d.say("curl %s", url)
			page, err := fetch(ctx, url, 10*time.Second)
			if err != nil {
				return fmt.Errorf("ask the web server of pod %s/%s: %w", p.Namespace, p.Name, err)
			}
			fmt.Fprint(d.out, page)
		}
	}
	d.say("To look around")
	config := filepath.Join(d.dir, "crictl.yaml") // without a file it warns at each call
	if err := os.WriteFile(config, []byte("runtime-endpoint: "+d.node.Endpoint()+"\n"), 0o600); err != nil {
		return err
	}
	crictl := filepath.Join(d.bin, "crictl") + " -c " + config
	fmt.Fprintf(d.out, "%s ps -a\n%s pods\ncurl http://%s/pods\nls %s\n", crictl, crictl, d.agent.address, filepath.Join(d.dir, "logs"))
	return nil
}

// takeDown removes the manifests and waits until the agent has no pod any more.
func (d *demo) takeDown(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(d.dir, "manifests", "*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return d.agent.waitGone(ctx, d.timeout)
}
