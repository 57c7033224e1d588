package critest

import (
	"context"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func imagePull(k *kit) {
	spec := &runtimeapi.ImageSpec{Image: k.b.Image}
	status := func(ref string) *runtimeapi.Image {
		k.Helper()
		r, err := k.im.ImageStatus(k.Context(), &runtimeapi.ImageSpec{Image: ref}, false)
		k.must("ImageStatus of "+ref, err)
		return r.GetImage()
	}
	ctx, cancel := context.WithTimeout(k.Context(), k.b.Patience)
	defer cancel()
	var refs []string
	for range 2 {
		ref, err := k.im.PullImage(ctx, spec, nil, k.pod())
		k.must("PullImage", err)
		refs = append(refs, ref)
	}
	if refs[0] == "" || refs[0] != refs[1] {
		k.Errorf("PullImage gave %q, want one reference twice", refs)
	}
	img := status(k.b.Image)
	if img == nil {
		k.Fatal("ImageStatus after PullImage has no image")
	}
	if img.Id == "" || img.Size == 0 {
		k.Errorf("image: %v; it needs an id and a size", img)
	}
	digest := slices.IndexFunc(img.RepoDigests, func(d string) bool { return strings.Contains(d, "@sha256:") })
	if digest < 0 {
		k.Fatalf("image has no digest reference: %v", img)
	}
	for _, ref := range []string{img.Id, refs[0], img.RepoDigests[digest]} {
		if got := status(ref); got.GetId() != img.Id {
			k.Errorf("ImageStatus of %q: %v, want image %s", ref, got, img.Id)
		}
	}
	l, err := k.im.ListImages(k.Context(), nil)
	k.must("ListImages", err)
	if !slices.ContainsFunc(l, func(i *runtimeapi.Image) bool { return i.Id == img.Id }) {
		k.Error("ListImages does not have the image")
	}
	// What the container says of its image is what the image says of itself.
	p := k.pod()
	sandbox := k.sandbox(p)
	c := k.container("main", k.b.Run...)
	c.Image.Image = img.Id
	st := k.status(k.create(sandbox, c, p))
	if got := status(st.ImageRef); got.GetId() != img.Id {
		k.Errorf("imageRef %q of a container leads to %v, want image %s", st.ImageRef, got, img.Id)
	}
	k.drop(sandbox)
	for range 2 {
		k.must("RemoveImage", k.im.RemoveImage(k.Context(), &runtimeapi.ImageSpec{Image: img.Id}))
		if got := status(k.b.Image); got != nil {
			k.Errorf("after RemoveImage: %v", got)
		}
	}
}

func imageAbsent(k *kit) {
	if k.b.NoImage == "" {
		k.Log("left out: the backend names no image that nobody has")
		return
	}
	spec := &runtimeapi.ImageSpec{Image: k.b.NoImage}
	r, err := k.im.ImageStatus(k.Context(), spec, false)
	if err != nil || r.GetImage() != nil {
		k.Errorf("ImageStatus of an image that is not there: %v, %v; want neither image nor error", r.GetImage(), err)
	}
	ctx, cancel := context.WithTimeout(k.Context(), k.b.Patience)
	defer cancel()
	if ref, err := k.im.PullImage(ctx, spec, nil, nil); err == nil {
		k.Errorf("PullImage of an image that nobody has: %q", ref)
	} else if ctx.Err() != nil {
		k.Errorf("PullImage of an image that nobody has takes longer than %v: %v", k.b.Patience, err)
	}
	for _, bad := range []string{"UPPER/CASE", "a b"} {
		if r, err := k.im.ImageStatus(k.Context(), &runtimeapi.ImageSpec{Image: bad}, false); err == nil && r.GetImage() != nil {
			k.Errorf("ImageStatus of %q: %v", bad, r.Image)
		}
	}
}
