// Program demoregistry serves small images, made in memory, on a loopback address: what `make run` and the
// tests on a real container runtime pull from. It needs no network and no image files.
//
// Repositories:
//
//	pause:3.10   library/pause:3.10     the sandbox image
//	busybox:1    library/busybox:1      busybox with all its applets
//	private/busybox:1, private/web:1    the same behind user and password; web serves /www on port 8080
//	blob-N:1                            busybox and N MiB that do not compress (flag --blobs)
//
// It is read-only: nothing can be pushed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	address   string
	readyFile string
	images    string
	user      string
	password  string
	rate      int64
	blobs     []int
	verbose   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "demoregistry:", err)
		}
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	logger := log.New(io.Discard, "", 0)
	if o.verbose {
		logger = log.New(stderr, "demoregistry: ", log.LstdFlags)
	}
	catalog, err := fill(o.images, o.blobs)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler:           guard{next: catalog, user: o.user, password: o.password, rate: o.rate, log: logger},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          logger,
	}
	if err := announce(o.readyFile, l.Addr().String()); err != nil {
		l.Close()
		return err
	}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("demoregistry", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.address, "address", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	fs.StringVar(&o.readyFile, "ready-file", "", "file that gets the chosen address once images are served")
	fs.StringVar(&o.images, "images", "", "directory with what the images are made of (pause, busybox, busybox.applets); default images beside the program")
	fs.StringVar(&o.user, "user", "demo", "user name for private/")
	fs.StringVar(&o.password, "password", "", "password for private/; without one nobody gets in")
	fs.Int64Var(&o.rate, "rate", 0, "bytes a second for each layer that is served; 0 is no limit")
	fs.BoolVar(&o.verbose, "v", false, "log each request")
	fs.Func("blobs", "comma-separated sizes in MiB of images blob-N:1", func(s string) error {
		for size := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(size)
			if err != nil || n < 1 || n > 4096 {
				return fmt.Errorf("size %q is not a number of MiB between 1 and 4096", size)
			}
			o.blobs = append(o.blobs, n)
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.images == "" {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find the images: %w", err)
		}
		o.images = filepath.Join(filepath.Dir(self), "images")
	}
	return o, nil
}

// announce writes the address in one step, so that a reader sees all of it or nothing.
func announce(file, address string) error {
	if file == "" {
		fmt.Println(address)
		return nil
	}
	if err := os.WriteFile(file+".new", []byte(address+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return nil
}
