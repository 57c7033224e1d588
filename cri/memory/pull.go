package memory

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoteImage is an image in the registry, and how its pull goes.
type RemoteImage struct {
	// Image is what the pull brings. Its Ref is not used.
	Image
	// PullTime is how long the pull takes. Default: none.
	PullTime time.Duration
	// Username and Password are needed for the pull when one of them is set.
	Username, Password string
	// Missing makes the pull fail with NotFound, as for a repository or tag that does not exist.
	Missing bool
	// Err makes the pull fail.
	Err error
}

// Pull is one call of PullImage that reached the registry.
type Pull struct {
	// Image is the reference as asked for, Ref as it was pulled.
	Image, Ref string
	// Auth is the authentication that came with the call; nil when none did.
	Auth *runtimeapi.AuthConfig
	// PodNamespace and PodName are those of the sandbox configuration that came with it.
	PodNamespace, PodName string
	// Time is when the pull began, Ended when it was over.
	Time, Ended time.Time
	// Err is how it ended.
	Err error
}

// Pulls returns what has been pulled, or tried, so far. The pull that still runs is not in it.
func (r *Runtime) Pulls() []Pull {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Pull(nil), r.pulls...)
}

// SetRemote changes the registry: ref, in any spelling, is from now on img. Images pulled before stay.
func (r *Runtime) SetRemote(ref string, img RemoteImage) error {
	named, err := normalize(ref)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.images.registry[named.String()] = img
	return nil
}

// AddImage stores an image without a pull.
func (r *Runtime) AddImage(img Image) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.state.images.add(img)
	return err
}

func (r *Runtime) pullImage(ctx context.Context, q *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	named, err := normalize(q.GetImage().GetImage())
	if err != nil {
		return nil, unknown(err)
	}
	m := q.GetSandboxConfig().GetMetadata()
	p := Pull{
		Image: q.GetImage().GetImage(), Ref: named.String(), PodNamespace: m.GetNamespace(), PodName: m.GetName(),
		Time: r.opt.Clock.Now(),
	}
	if q.GetAuth() != nil {
		p.Auth = proto.CloneOf(q.GetAuth())
	}
	id, err := r.fetch(ctx, named, p.Auth)
	p.Err = err
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Ended = r.opt.Clock.Now()
	r.pulls = append(r.pulls, p)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: id}, nil
}

// fetch brings an image from the registry to the store.
func (r *Runtime) fetch(ctx context.Context, named reference.Named, auth *runtimeapi.AuthConfig) (string, error) {
	ref := named.String()
	r.mu.Lock()
	remote, ok := r.state.images.registry[ref]
	r.mu.Unlock()
	if !ok {
		remote.Missing = r.opt.RegistryOnly
	}
	if err := r.sleep(ctx, remote.PullTime); err != nil {
		return "", err
	}
	fail := func(err error) error {
		return unknown(fmt.Errorf("failed to pull and unpack image %q: failed to resolve reference %q: %w", ref, ref, err))
	}
	switch user, password, err := credentials(auth, reference.Domain(named)); {
	case err != nil:
		return "", unknown(err)
	case remote.Err != nil:
		return "", fail(remote.Err)
	case remote.Missing:
		return "", notFound("failed to pull and unpack image %q: failed to resolve reference %q: %s", ref, ref, ref)
	case (remote.Username != "" || remote.Password != "") && (user != remote.Username || password != remote.Password):
		return "", fail(errors.New("pull access denied, repository does not exist or may require authorization: authorization failed"))
	}
	img := remote.Image
	img.Ref = ref
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.state.images.add(img)
	if err != nil {
		return "", unknown(err)
	}
	return s.id, nil
}

// credentials takes user and password out of a CRI AuthConfig as containerd does: none when they are for
// another server; the fields, the identity token, or the encoded pair, in that order.
func credentials(auth *runtimeapi.AuthConfig, host string) (user, password string, err error) {
	if auth == nil {
		return "", "", nil
	}
	if host == "docker.io" {
		host = "registry-1.docker.io"
	}
	if auth.ServerAddress != "" {
		u, err := url.Parse(auth.ServerAddress)
		if err != nil {
			return "", "", fmt.Errorf("parse server address: %w", err)
		}
		if u.Host != host {
			return "", "", nil
		}
	}
	switch {
	case auth.Username != "":
		return auth.Username, auth.Password, nil
	case auth.IdentityToken != "":
		return "", auth.IdentityToken, nil
	case auth.Auth != "":
		data, err := base64.StdEncoding.DecodeString(auth.Auth)
		if err != nil {
			return "", "", fmt.Errorf("decode auth: %w", err)
		}
		user, password, ok := strings.Cut(string(data), ":")
		if !ok {
			return "", "", errors.New("decode auth: no colon between user and password")
		}
		return user, strings.Trim(password, "\x00"), nil
	}
	return "", "", nil
}
