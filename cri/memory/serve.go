package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
)

// ErrSocketInUse is Serve's answer when another server listens on the socket.
var ErrSocketInUse = errors.New("another server listens on the socket")

// maxMessage is the largest message a CRI server takes and sends, as in containerd.
const maxMessage = 16 << 20

// Serve serves rt on a unix socket until ctx ends, and returns once every goroutine of the server has ended;
// calls that run then are cut off. The socket's path may begin with unix://. Its directory must exist. The
// socket has mode 0600 from the moment it appears, which is when it is ready, and is removed at the end. A
// socket that a dead server left is replaced; one in use is ErrSocketInUse, any other file an error.
func Serve(ctx context.Context, rt *Runtime, socketPath string) error {
	path := strings.TrimPrefix(socketPath, "unix://")
	l, err := listen(ctx, path)
	if err != nil {
		return fmt.Errorf("serve the in-memory runtime on %s: %w", path, err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.WaitForHandlers(true))
	Register(s, rt)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		s.Stop()
		<-served
	}
	if rmErr := os.Remove(path); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	if err != nil {
		return fmt.Errorf("serve the in-memory runtime on %s: %w", path, err)
	}
	return nil
}

// listen makes the socket in a private directory beside its place, and moves it there when its mode is right:
// nobody else can connect in between.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := vacate(ctx, path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tmp := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", tmp)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	err = os.Chmod(tmp, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// vacate removes a socket that nobody listens on.
func vacate(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("the path is in the way and is not a socket (%s)", info.Mode().Type())
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(ErrSocketInUse, c.Close())
	}
	return os.Remove(path)
}
