package realruntime

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RegistryConfig says what [StartRegistry] serves. The zero value is ready to use.
type RegistryConfig struct {
	// BinDir has the programs of `make runtime`. Default: LocateBin().
	BinDir string
	// Address to listen on. Default 127.0.0.1 and a free port.
	Address string
	// Password of the user "demo" for the repositories below private/. Default: a random one.
	Password string
	// Rate limits each layer that is served, in bytes a second. Default: no limit.
	Rate int64
	// Blobs are sizes in MiB: each adds an image blob-N:1 with a layer of that size.
	Blobs []int
	// Output gets a line for each request. Default: none.
	Output io.Writer
}

// Registry is a running image registry on a loopback address. It serves busybox:1 and pause:3.10, also below
// library/, and behind user and password private/busybox:1 and private/web:1 (an HTTP server of /www on 8080).
type Registry struct {
	// Address is host and port.
	Address string
	// User and Password open private/.
	User, Password string

	process *Process
}

// StartRegistry starts the registry program and waits until it serves.
func StartRegistry(ctx context.Context, c RegistryConfig) (*Registry, error) {
	r, err := startRegistry(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("start the demo registry: %w", err)
	}
	return r, nil
}

func startRegistry(ctx context.Context, c RegistryConfig) (*Registry, error) {
	if c.BinDir == "" {
		dir, err := LocateBin()
		if err != nil {
			return nil, err
		}
		c.BinDir = dir
	}
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	if c.Password == "" {
		c.Password = rand.Text()
	}
	args := []string{"--address", c.Address, "--password", c.Password, "--rate", strconv.FormatInt(c.Rate, 10)}
	for _, size := range c.Blobs {
		args = append(args, "--blobs", strconv.Itoa(size))
	}
	if c.Output != nil {
		args = append(args, "-v")
	}
	address, errors := &firstLine{ready: make(chan struct{})}, &lastLines{next: c.Output}
	p, err := StartProcess(ProcessSpec{Path: filepath.Join(c.BinDir, "demoregistry"), Args: args, Env: os.Environ(), Stdout: address, Stderr: errors})
	if err != nil {
		return nil, err
	}
	select {
	case <-address.ready:
		return &Registry{Address: address.String(), User: "demo", Password: c.Password, process: p}, nil
	case <-p.done:
		return nil, fmt.Errorf("it ended: %w: %s", p.Err(), errors)
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
}

// Image is the full reference of an image, for a name like "busybox:1".
func (r *Registry) Image(name string) string { return r.Address + "/" + name }

// DockerConfigJSON is the content of a pull secret (key .dockerconfigjson) that opens private/.
func (r *Registry) DockerConfigJSON() ([]byte, error) {
	auth := base64.StdEncoding.EncodeToString([]byte(r.User + ":" + r.Password))
	type object = map[string]any
	return json.Marshal(object{"auths": object{r.Address: object{"username": r.User, "password": r.Password, "auth": auth}}})
}

// Stop ends the registry. It may be called again.
func (r *Registry) Stop(ctx context.Context) error {
	r.process.Stop(ctx, 5*time.Second)
	return nil
}

// firstLine keeps the first line that is written and drops the rest. It is read after ready was closed.
type firstLine struct {
	ready chan struct{}
	line  []byte
	full  bool
}

// Write never fails.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.full {
		return len(p), nil
	}
	line, _, full := bytes.Cut(p, []byte("\n"))
	f.line = append(f.line, line...)
	if f.full = full; full {
		close(f.ready)
	}
	return len(p), nil
}

func (f *firstLine) String() string { return strings.TrimSpace(string(f.line)) }

// lastLines passes output on and keeps the end of it for an error message. One goroutine writes; it is read
// only after that ended.
type lastLines struct {
	next io.Writer
	kept []byte
}

// Write never fails, so that a closed terminal does not end the child.
func (l *lastLines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	l.kept = l.kept[max(0, len(l.kept)-1000):]
	if l.next != nil {
		_, _ = l.next.Write(p)
	}
	return len(p), nil
}

func (l *lastLines) String() string { return strings.TrimSpace(string(l.kept)) }
