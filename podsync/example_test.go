package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// modemDevice is the path of the modem that a pod was given.
var modemDevice = podsync.NewKey[string]("modemDevice")

// Modem is a stage with a key: it gives a pod a modem.
type Modem struct {
	Find func() (device string, err error)
}

// Name is the stage's name in the pipeline, with the site's domain.
func (Modem) Name() string { return "example.com/modem" }

// Declare says which keys the stage writes; what it does not declare it cannot write.
func (Modem) Declare() podsync.Deps {
	return podsync.Deps{Provides: []podsync.AnyKey{modemDevice}}
}

// Run finds the modem. It may be run again at any time.
func (m Modem) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if s.Pod().Labels["example.com/modem"] == "" {
		return podsync.Skip("NoModemWanted")
	}
	device, err := m.Find()
	switch {
	case errors.Is(err, errUnplugged):
		return podsync.Wait(time.Minute, "ModemMissing", "no modem is plugged in").WakeOn("example.com/Plugged")
	case err != nil:
		return podsync.Retry(fmt.Errorf("find a modem for pod %s: %w", s.Ref(), err))
	}
	return podsync.FromErr(modemDevice.Set(s, device))
}

var errUnplugged = errors.New("no modem")

// Two stages, one of which leaves a key for the other, run with no agent.
func Example() {
	dial := podsync.NewStageWith("example.com/dial", podsync.Deps{Needs: []podsync.AnyKey{modemDevice}},
		func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			device, ok := modemDevice.Get(s)
			if !ok {
				return podsync.Skip("NoModem")
			}
			fmt.Println("dialing with", device)
			return podsync.Continue()
		})
	device, missing := "", errUnplugged
	p, err := podsync.NewBuilder(podsync.PhaseSync).
		Append(Modem{Find: func() (string, error) { return device, missing }}, podsync.Timeout(10*time.Second)).
		Append(dial).
		Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := podsynctest.Pod(func(p *corev1.Pod) { p.Labels = map[string]string{"example.com/modem": "yes"} })
	fmt.Println(p.Run(context.Background(), podsync.NewSync(pod)))
	device, missing = "/dev/ttyUSB0", nil
	s := podsync.NewSync(pod)
	p.Run(context.Background(), s)
	fmt.Println(s.Trace())
	// Output:
	// Wait(ModemMissing): no modem is plugged in
	// dialing with /dev/ttyUSB0
	// example.com/modem=Continue example.com/dial=Continue
}

// Mistakes are told when the pipeline is built, all at once and with their fix.
func ExampleBuilder_Build() {
	dial := podsync.NewStageWith("example.com/dial", podsync.Deps{Needs: []podsync.AnyKey{modemDevice}},
		func(context.Context, *podsync.Sync) podsync.Outcome { return podsync.Continue() })
	_, err := podsync.NewBuilder(podsync.PhaseSync).
		Append(dial).
		Append(Modem{}).
		Before("volumes", podsynctest.Script("example.com/late")).
		Build()
	fmt.Println(err)
	// Output:
	// sync pipeline: Before("volumes"): the sync pipeline has no such stage; it has "example.com/dial", "example.com/modem"
	// stage "example.com/dial" needs modemDevice, which no earlier stage provides; stage "example.com/modem" does, but later: put it before "example.com/dial"
}

// Replace puts a mock in the place of a stage; the place keeps its name.
func ExampleBuilder_Replace() {
	b := podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script(podsync.StageVolumes)).
		Append(podsynctest.Script(podsync.StageRuntime))
	b.Replace(podsync.StageVolumes, podsynctest.Script("mock", podsync.Wait(time.Minute, "DiskAsleep", "the disk is spinning up")))
	p, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := podsync.NewSync(podsynctest.Pod())
	p.Run(context.Background(), s)
	fmt.Println(p)
	fmt.Println(s.Trace())
	// Output:
	// sync: volumes > runtime
	// volumes=Wait(DiskAsleep)
}

// Middleware may change what stages do: here a dry run, which leaves one out.
func ExampleMiddleware() {
	dryRun := func(i podsync.StageInfo, next podsync.StageFunc) podsync.StageFunc {
		if i.Name != podsync.StageRuntime {
			return next
		}
		return func(context.Context, *podsync.Sync) podsync.Outcome { return podsync.Skip("DryRun") }
	}
	p, err := podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script(podsync.StageVolumes)).
		Append(podsynctest.Script(podsync.StageRuntime)).
		Use(dryRun).
		Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := podsync.NewSync(podsynctest.Pod())
	p.Run(context.Background(), s)
	fmt.Println(s.Trace())
	// Output: volumes=Continue runtime=Skip(DryRun)
}

// An agent of one stage and one source: what drives the pipelines.
func ExampleAgent() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ran := make(chan string, 1)
	hello := podsync.NewStage("example.com/hello", func(_ context.Context, s *podsync.Sync) podsync.Outcome {
		ran <- "hello " + s.Pod().Name + ", because of " + string(s.Cause())
		return podsync.Continue()
	})
	a, err := podsync.New(podsync.Config{
		Plan:    &podsync.Plan{Sync: podsync.NewBuilder(podsync.PhaseSync).Append(hello)},
		Sources: []podsync.Source{onePod{podsynctest.Pod()}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	fmt.Println(<-ran)
	cancel()
	fmt.Println(<-done)
	// Output:
	// hello web, because of Create
	// <nil>
}

// onePod is a source of one pod that never changes.
type onePod struct{ pod *corev1.Pod }

func (onePod) Name() string { return "example" }

func (o onePod) Run(ctx context.Context, set func([]*corev1.Pod)) error {
	set([]*corev1.Pod{o.pod})
	<-ctx.Done()
	return nil
}
