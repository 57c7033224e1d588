// Edgeagent is a node agent made of the SDK's parts: it runs the pods of a
// directory of manifests on a CRI runtime, with no API server or with one.
//
//	edgeagent --runtime-endpoint memory --manifests ./manifests --root-dir /tmp/edge
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f, err := parseFlags(os.Args[1:])
	if err == pflag.ErrHelp {
		return
	}
	if err == nil {
		err = run(ctx, f, logger(f.Verbosity))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "edgeagent:", err)
		os.Exit(1)
	}
}

// logger writes lines for people; from -v 2 on every stage of every pod.
func logger(v int) *slog.Logger {
	level := slog.LevelInfo
	if v >= 2 {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
