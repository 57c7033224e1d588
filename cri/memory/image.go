package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is an image that the Runtime has from the start, and what an image consists of.
type Image struct {
	// Ref is its reference, in any spelling: busybox, docker.io/library/busybox:latest, repo@sha256:….
	Ref string
	// Digest is its manifest's, sha256:…. Default: made from Ref.
	Digest string
	// ID is its configuration's digest, sha256:…. Default: made from Digest.
	ID string
	// Size is in bytes. Default: 1 MiB.
	Size uint64
	// User is that of the image's configuration: "", "1000", "1000:1000" or a name.
	User string
	// StopSignal is that of the image's configuration. Default: SIGTERM.
	StopSignal runtimeapi.Signal
	// Pinned keeps it from garbage collection.
	Pinned bool
}

// storedImage is an image in the store.
type storedImage struct {
	Image
	id   string
	refs []string // normalised: tags and digests, in the order they came
}

// imageStore is the images of a Runtime. The lock of the Runtime guards it.
type imageStore struct {
	byID     map[string]*storedImage
	order    []*storedImage
	byRef    map[string]*storedImage
	registry map[string]RemoteImage
}

func (st *imageStore) init(o Options) {
	st.byID, st.byRef, st.registry = map[string]*storedImage{}, map[string]*storedImage{}, map[string]RemoteImage{}
	for _, img := range o.Images {
		if _, err := st.add(img); err != nil {
			o.Logger.Warn("image left out", "image", img.Ref, "err", err)
		}
	}
	for ref, remote := range o.Registry {
		named, err := normalize(ref)
		if err != nil {
			o.Logger.Warn("registry entry left out", "image", ref, "err", err)
			continue
		}
		st.registry[named.String()] = remote
	}
}

// normalize spells a reference as containerd does: with registry, with a tag; without the tag when it has a
// digest too.
func normalize(ref string) (reference.Named, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, fmt.Errorf("failed to parse image reference %q: %w", ref, err)
	}
	return named, nil
}

func digestOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// add stores an image under its reference and its digest; a tag moves away from the image that had it.
func (st *imageStore) add(img Image) (*storedImage, error) {
	named, err := normalize(img.Ref)
	if err != nil {
		return nil, err
	}
	if d, ok := named.(reference.Digested); ok {
		img.Digest = d.Digest().String()
	}
	if img.Digest == "" {
		img.Digest = digestOf("manifest", named.String())
	}
	if img.ID == "" {
		img.ID = digestOf("config", img.Digest)
	}
	if img.Size == 0 {
		img.Size = 1 << 20
	}
	s, ok := st.byID[img.ID]
	if !ok {
		s = &storedImage{Image: img, id: img.ID}
		st.byID[img.ID] = s
		st.order = append(st.order, s)
	}
	st.name(named.String(), s)
	st.name(reference.TrimNamed(named).String()+"@"+img.Digest, s)
	return s, nil
}

func (st *imageStore) name(ref string, s *storedImage) {
	if old := st.byRef[ref]; old == s {
		return
	} else if old != nil {
		old.refs = without(old.refs, ref)
	}
	st.byRef[ref] = s
	s.refs = append(s.refs, ref)
}

// minShortID is how many digits of an image ID stand for the whole; crictl shows 13.
const minShortID = 12

// lookup finds an image by ID, by a unique part of the ID's start, or by reference.
func (st *imageStore) lookup(refOrID string) (*storedImage, bool) {
	if s, ok := st.byID[refOrID]; ok {
		return s, true
	}
	if named, err := normalize(refOrID); err == nil {
		if s, ok := st.byRef[named.String()]; ok {
			return s, true
		}
	}
	// Shorter ones could be meant as names.
	if hex := strings.TrimPrefix(refOrID, "sha256:"); len(hex) >= minShortID {
		return find(st.byID, "sha256:"+hex)
	}
	return nil, false
}

// resolve is lookup with containerd's error.
func (st *imageStore) resolve(refOrID string) (*storedImage, error) {
	if s, ok := st.lookup(refOrID); ok {
		return s, nil
	}
	return nil, notFound("failed to resolve image %q", refOrID)
}

func (st *imageStore) remove(s *storedImage) {
	for _, ref := range s.refs {
		delete(st.byRef, ref)
	}
	delete(st.byID, s.id)
	st.order = without(st.order, s)
}

func (s *storedImage) tags() []string {
	return slices.DeleteFunc(slices.Clone(s.refs), func(r string) bool { return strings.Contains(r, "@") })
}

func (s *storedImage) digests() []string {
	return slices.DeleteFunc(slices.Clone(s.refs), func(r string) bool { return !strings.Contains(r, "@") })
}

// uid splits the image's user: a number, or a name, or neither.
func (s *storedImage) uid() (*runtimeapi.Int64Value, string) {
	user, _, _ := strings.Cut(s.User, ":")
	if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
		return &runtimeapi.Int64Value{Value: uid}, ""
	}
	return nil, user
}

func (s *storedImage) proto() *runtimeapi.Image {
	uid, name := s.uid()
	return &runtimeapi.Image{Id: s.id, RepoTags: s.tags(), RepoDigests: s.digests(), Size: s.Size, Uid: uid, Username: name, Pinned: s.Pinned}
}

// userFor is whom a container of the image runs as. A name that only the image's files could resolve is 1000.
func (s *storedImage) userFor(c *runtimeapi.ContainerConfig) *runtimeapi.ContainerUser {
	sc := c.GetLinux().GetSecurityContext()
	u := &runtimeapi.LinuxContainerUser{SupplementalGroups: slices.Clone(sc.GetSupplementalGroups())}
	uid, name := s.uid()
	switch {
	case sc.GetRunAsUser() != nil:
		u.Uid = sc.GetRunAsUser().GetValue()
	case sc.GetRunAsUsername() != "" && sc.GetRunAsUsername() != "root", name != "" && name != "root":
		u.Uid, u.Gid = 1000, 1000
	case uid != nil:
		u.Uid = uid.Value
		_, group, _ := strings.Cut(s.User, ":")
		u.Gid, _ = strconv.ParseInt(group, 10, 64) // a name or none: group 0
	}
	if g := sc.GetRunAsGroup(); g != nil {
		u.Gid = g.GetValue()
	}
	return &runtimeapi.ContainerUser{Linux: u}
}

func (s *storedImage) signalFor(c *runtimeapi.ContainerConfig) runtimeapi.Signal {
	for _, sig := range []runtimeapi.Signal{c.GetStopSignal(), s.StopSignal} {
		if sig != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
			return sig
		}
	}
	return runtimeapi.Signal_SIGNAL_SIGTERM
}

func (r *Runtime) listImages(_ context.Context, q *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &runtimeapi.ListImagesResponse{}
	list := r.state.images.order
	if ref := q.GetFilter().GetImage().GetImage(); ref != "" {
		list = nil
		if s, ok := r.state.images.lookup(ref); ok {
			list = []*storedImage{s}
		}
	}
	for _, s := range list {
		resp.Images = append(resp.Images, s.proto())
	}
	return resp, nil
}

// imageStatus answers an unknown image with an empty reply, not an error, as the CRI wants it.
func (r *Runtime) imageStatus(_ context.Context, q *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.state.images.lookup(q.GetImage().GetImage())
	if !ok {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	resp := &runtimeapi.ImageStatusResponse{Image: s.proto()}
	if q.GetVerbose() {
		resp.Info = infoJSON(map[string]any{"imageSpec": map[string]any{"config": map[string]any{"User": s.User}}})
	}
	return resp, nil
}

// removeImage removes an image with all its names; containers that use it keep running.
func (r *Runtime) removeImage(_ context.Context, q *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.state.images.lookup(q.GetImage().GetImage()); ok {
		r.state.images.remove(s)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (r *Runtime) imageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var images uint64
	for _, s := range r.state.images.order {
		images += s.Size
	}
	fs := &runtimeapi.FilesystemUsage{
		Timestamp:  r.opt.Clock.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: r.opt.ImageFsMountpoint},
		UsedBytes:  &runtimeapi.UInt64Value{Value: images},
		InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(r.state.images.order))},
	}
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems: []*runtimeapi.FilesystemUsage{fs}, ContainerFilesystems: []*runtimeapi.FilesystemUsage{proto.CloneOf(fs)},
	}, nil
}
