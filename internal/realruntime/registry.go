package realruntime

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
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

	process *process
	dir     string
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
	dir, err := os.MkdirTemp("", "podsync-registry-")
	if err != nil {
		return nil, err
	}
	ready := filepath.Join(dir, "address")
	args := []string{"--address", c.Address, "--ready-file", ready, "--password", c.Password, "--rate", strconv.FormatInt(c.Rate, 10)}
	for _, size := range c.Blobs {
		args = append(args, "--blobs", strconv.Itoa(size))
	}
	output := &lastLines{next: c.Output}
	if c.Output != nil {
		args = append(args, "-v")
	}
	p, err := startProcess(spec{Path: filepath.Join(c.BinDir, "demoregistry"), Args: args, Env: os.Environ(), Output: output})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r := &Registry{User: "demo", Password: c.Password, process: p, dir: dir}
	if r.Address, err = waitForFile(ctx, ready, p); err != nil {
		p.kill()
		return nil, errors.Join(fmt.Errorf("%w: %s", err, output), os.RemoveAll(dir))
	}
	return r, nil
}

// waitForFile waits until the process has written the file.
func waitForFile(ctx context.Context, file string, p *process) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		b, err := os.ReadFile(file)
		if err == nil {
			return strings.TrimSpace(string(b)), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		select {
		case <-p.done:
			return "", fmt.Errorf("it ended: %w", p.exit())
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
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
	r.process.stop(ctx, 5*time.Second)
	return os.RemoveAll(r.dir)
}

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
