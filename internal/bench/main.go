// Program bench is what `make bench` calls: it starts pods on a real, private containerd by a bare CRI client,
// which is the floor, and by the example agent, in turns, and prints how far the agent is above the floor and
// what it costs at rest, beside the figures that the project has set itself.
//
// Noise of the machine hits both sides of a ratio alike: they are measured in turns, and each figure is the
// median of all its measurements. It needs Linux, root and the programs of `make runtime`; without those it
// runs the one benchmark that needs none of them. Everything it makes is private and removed in the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podsync/sdk/internal/realruntime"
)

// options are the command line.
type options struct {
	rounds int           // of everything
	single int           // pods started one after another, in each round
	levels []int         // numbers of calls in flight of the floor's bursts
	pods   int           // of a burst
	idle   time.Duration // how long the agent is watched at rest
	settle time.Duration // after a burst, before that
	agent  string        // the program; "" builds examples/edgeagent
	log    string        // a file for the agent's log, which then has each stage
	strict bool          // a miss is an error
	noop   bool          // run that benchmark
	only   string        // one part; "" is all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var quick bool
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 3, "rounds of everything")
	fs.IntVar(&o.single, "single", 8, "pods started one after another in each round, on each side")
	fs.IntVar(&o.pods, "pods", 50, "pods of a burst")
	fs.DurationVar(&o.idle, "idle", 20*time.Second, "how long the agent is watched at rest")
	fs.DurationVar(&o.settle, "settle", 12*time.Second, "how long the agent is left alone before that")
	levels := fs.String("in-flight", "1,2,4,8,16", "how many calls the floor has in flight in a burst; later rounds try the two best")
	fs.BoolVar(&quick, "quick", false, "one round and a short idle time: a first impression")
	fs.StringVar(&o.agent, "agent", "", "the agent program; default: examples/edgeagent, built now")
	fs.StringVar(&o.log, "log", "", "file for the agent's log, with each stage of each pod; logging costs time")
	fs.BoolVar(&o.strict, "strict", false, "exit with 1 when a figure misses its target")
	fs.BoolVar(&o.noop, "noop", true, "run the benchmark of a sync that has nothing to do")
	fs.StringVar(&o.only, "only", "", "one part alone: start, burst or idle")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.rounds, o.single, o.idle = 1, 5, 10*time.Second
	}
	for _, l := range strings.Split(*levels, ",") {
		n, err := strconv.Atoi(l)
		if err != nil || n < 1 {
			return o, fmt.Errorf("--in-flight is %q; it must be numbers from 1 on with commas between", *levels)
		}
		o.levels = append(o.levels, n)
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.rounds < 1 || o.single < 1 || o.pods < 1 || o.pods > 100:
		return o, errors.New("--rounds and --single must be at least 1, --pods from 1 to 100")
	case o.only != "" && o.only != partStart && o.only != partBurst && o.only != partIdle:
		return o, fmt.Errorf("--only is %q; it must be %s, %s or %s", o.only, partStart, partBurst, partIdle)
	}
	return o, nil
}

// run measures and prints. What was measured is printed even if the rest failed.
func run(ctx context.Context, o options, out io.Writer) error {
	r := &results{}
	var err error
	if why := realruntime.Missing(); why != "" {
		fmt.Fprintf(out, "No pods are started: this %s\n", why)
	} else {
		err = measure(ctx, o, &progress{out: out, began: time.Now()}, r)
	}
	if err == nil && o.noop && ctx.Err() == nil {
		fmt.Fprintln(out, "no-op sync: go test -bench NoopSync ./podsync/node")
		r.noopTime, r.noopAllocs, err = noopSync(ctx)
	}
	rows := r.rows(o.pods)
	if e := printTable(out, rows); e != nil {
		return errors.Join(err, e)
	}
	if err == nil && o.strict {
		for _, row := range rows {
			if !row.met() {
				err = errors.Join(err, fmt.Errorf("%s: %s misses its target of %s", row.name, row.value(), row.goal()))
			}
		}
	}
	return err
}

// progress tells what is being done.
type progress struct {
	out   io.Writer
	began time.Time
}

func (p *progress) say(format string, args ...any) {
	fmt.Fprintf(p.out, "%4.0fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}
