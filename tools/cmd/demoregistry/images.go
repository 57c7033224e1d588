package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// fill makes the images and returns a registry that holds them.
func fill(dir string, blobs []int) (http.Handler, error) {
	pause, err := pauseImage(dir)
	if err != nil {
		return nil, err
	}
	busybox, err := busyboxImage(dir)
	if err != nil {
		return nil, err
	}
	web, err := mutate.Config(busybox, settings([]string{"/bin/sh", "-c", webServer}, nil))
	if err != nil {
		return nil, fmt.Errorf("make the web image: %w", err)
	}
	// Requests are logged by the guard; the registry would log the filling too.
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	named := []struct {
		repository, tag string
		image           v1.Image
	}{
		{"pause", "3.10", pause}, {"library/pause", "3.10", pause},
		{"busybox", "1", busybox}, {"library/busybox", "1", busybox}, {"private/busybox", "1", busybox},
		{"private/web", "1", web},
	}
	for _, n := range named {
		if err := push(h, n.repository, n.tag, n.image); err != nil {
			return nil, err
		}
	}
	for _, mib := range blobs {
		image, err := blobImage(busybox, mib)
		if err != nil {
			return nil, err
		}
		if err := push(h, fmt.Sprintf("blob-%d", mib), "1", image); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// webServer runs httpd and passes SIGTERM on, which process 1 of a container does not get by default.
const webServer = `httpd -f -v -p 8080 -h /www & trap 'kill $!' TERM; wait`

// pauseImage is the sandbox image: one static program.
func pauseImage(dir string) (v1.Image, error) {
	program, err := os.ReadFile(filepath.Join(dir, "pause"))
	if err != nil {
		return nil, fmt.Errorf("make the pause image: %w", err)
	}
	c := settings([]string{"/pause"}, nil)
	c.User = "65535:65535"
	return image(c, file("pause", 0o755, program))
}

// busyboxImage has busybox in /bin with a link for each applet, and the few files programs look for.
func busyboxImage(dir string) (v1.Image, error) {
	program, err := os.ReadFile(filepath.Join(dir, "busybox"))
	if err != nil {
		return nil, fmt.Errorf("make the busybox image: %w", err)
	}
	applets, err := os.ReadFile(filepath.Join(dir, "busybox.applets"))
	if err != nil {
		return nil, fmt.Errorf("make the busybox image: %w", err)
	}
	entries := []entry{
		folder("bin", 0o755), folder("etc", 0o755), folder("root", 0o700), folder("home", 0o755), folder("tmp", 0o1777), folder("www", 0o755),
		file("bin/busybox", 0o755, program),
		file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")),
		file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")),
	}
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" && !strings.Contains(name, "/") {
			entries = append(entries, link("bin/"+name, "busybox"))
		}
	}
	return image(settings(nil, []string{"sh"}), entries...)
}

// blobImage adds a layer of mib MiB that does not compress; equal sizes give equal images.
func blobImage(base v1.Image, mib int) (v1.Image, error) {
	content := make([]byte, mib<<20)
	// ChaCha8 never fails, and its output is the same everywhere.
	_, _ = rand.NewChaCha8([32]byte{byte(mib), byte(mib >> 8)}).Read(content)
	layer, err := layerOf(file("blob", 0o644, content))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, fmt.Errorf("make image blob-%d: %w", mib, err)
	}
	return img, nil
}

// settings is an image's run configuration.
func settings(entrypoint, cmd []string) v1.Config {
	return v1.Config{Entrypoint: entrypoint, Cmd: cmd, WorkingDir: "/", Env: []string{"PATH=/bin:/sbin:/usr/bin:/usr/sbin"}}
}

// image makes a one-layer image for this machine's architecture.
func image(c v1.Config, entries ...entry) (v1.Image, error) {
	layer, err := layerOf(entries...)
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture, cf.Config = "linux", runtime.GOARCH, c
	img, err = mutate.ConfigFile(img, cf)
	if err != nil {
		return nil, fmt.Errorf("set the image's configuration: %w", err)
	}
	return img, nil
}

// An entry is one file, directory or link of a layer.
type entry struct {
	header  tar.Header
	content []byte
}

func folder(name string, mode int64) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}}
}

func file(name string, mode int64, content []byte) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content: content}
}

func link(name, target string) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

// layerOf packs entries; without times, so that equal content has an equal digest.
func layerOf(entries ...entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack a layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return layer, nil
}

// push stores an image by the registry's own API, without a connection.
func push(h http.Handler, repository, tag string, img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return fmt.Errorf("push %s:%s: %w", repository, tag, err)
		}
		r, err := l.Compressed()
		if err != nil {
			return fmt.Errorf("push %s:%s: %w", repository, tag, err)
		}
		err = call(h, http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+digest.String(), "", r)
		r.Close()
		if err != nil {
			return err
		}
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	name, err := img.ConfigName()
	if err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	if err := call(h, http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+name.String(), "", bytes.NewReader(config)); err != nil {
		return err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	media, err := img.MediaType()
	if err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	return call(h, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, string(media), bytes.NewReader(manifest))
}

// call makes one request of the handler.
func call(h http.Handler, method, target, contentType string, body io.Reader) error {
	r := httptest.NewRequest(method, target, body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: status %d: %s", method, target, w.Code, strings.TrimSpace(w.Body.String()))
	}
	return nil
}
