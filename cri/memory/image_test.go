package memory_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

func spec(ref string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: ref} }

func TestImagesAreFoundByEverySpelling(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	id := "sha256:" + strings.Repeat("cd", 32)
	n := newNode(t, memory.Options{Images: []memory.Image{{Ref: "nginx:1.27", Digest: digest, ID: id, Size: 42, User: "101:102", Pinned: true}}})
	want := &runtimeapi.Image{
		Id: id, RepoTags: []string{"docker.io/library/nginx:1.27"}, RepoDigests: []string{"docker.io/library/nginx@" + digest},
		Size: 42, Uid: &runtimeapi.Int64Value{Value: 101}, Pinned: true,
	}
	for _, ref := range []string{
		"nginx:1.27", "library/nginx:1.27", "docker.io/nginx:1.27", "index.docker.io/library/nginx:1.27", "docker.io/library/nginx:1.27",
		"nginx@" + digest, "nginx:1.27@" + digest, id, strings.TrimPrefix(id, "sha256:"), id[:20], id[7:20],
	} {
		resp, err := n.ImageStatus(t.Context(), spec(ref), false)
		n.ok(err)
		if diff := cmp.Diff(want, resp.Image, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
		list, err := n.ListImages(t.Context(), &runtimeapi.ImageFilter{Image: spec(ref)})
		n.ok(err)
		if len(list) != 1 {
			t.Errorf("%s: a list of %d", ref, len(list))
		}
	}
	for _, ref := range []string{"nginx", "nginx:1.26", "quay.io/nginx:1.27", "NGINX:1.27", "cd", ""} {
		resp, err := n.ImageStatus(t.Context(), spec(ref), false)
		n.ok(err)
		if resp.Image != nil {
			t.Errorf("%q found %v", ref, resp.Image)
		}
	}
	n.ok(n.RemoveImage(t.Context(), spec("nginx@"+digest)))
	if list, err := n.ListImages(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("after the removal: %v, %v", list, err)
	}
}

func TestPull(t *testing.T) {
	digest := "sha256:" + strings.Repeat("12", 32)
	broken := errors.New("503 Service Unavailable")
	login := memory.RemoteImage{Username: "user", Password: "pa:ss"}
	n := newNode(t, memory.Options{Registry: map[string]memory.RemoteImage{
		"private/app":           login,
		"reg.local:5000/app:v1": login,
		"gone:1":                {Missing: true},
		"broken:1":              {Err: broken},
	}})
	encoded := base64.StdEncoding.EncodeToString([]byte("user:pa:ss"))
	tests := []struct {
		name, ref string
		auth      *runtimeapi.AuthConfig
		code      codes.Code
		text      string
	}{
		{"public", "busybox:1.36", nil, codes.OK, ""},
		{"by digest", "busybox@" + digest, nil, codes.OK, ""},
		{"not a reference", "Bad//Ref", nil, codes.Unknown, "failed to parse image reference"},
		{"missing", "docker.io/library/gone:1", nil, codes.NotFound, "not found"},
		{"registry's error", "broken:1", nil, codes.Unknown, "503"},
		{"no login", "private/app", nil, codes.Unknown, "pull access denied"},
		{"wrong login", "private/app", &runtimeapi.AuthConfig{Username: "user", Password: "x"}, codes.Unknown, "pull access denied"},
		{"login", "private/app:latest", &runtimeapi.AuthConfig{Username: "user", Password: "pa:ss"}, codes.OK, ""},
		{"encoded login", "private/app", &runtimeapi.AuthConfig{Auth: encoded}, codes.OK, ""},
		{"login for its server", "reg.local:5000/app:v1", &runtimeapi.AuthConfig{Auth: encoded, ServerAddress: "https://reg.local:5000/v2/"}, codes.OK, ""},
		{"login for another server", "reg.local:5000/app:v1", &runtimeapi.AuthConfig{Auth: encoded, ServerAddress: "https://reg.local"}, codes.Unknown, "pull access denied"},
		{"login that is no base64", "private/app", &runtimeapi.AuthConfig{Auth: "%"}, codes.Unknown, "decode auth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := n.PullImage(t.Context(), spec(tt.ref), tt.auth, podConfig("web"))
			if status.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error %v, want %s …%s…", err, tt.code, tt.text)
			}
			if err != nil {
				return
			}
			resp, err := n.ImageStatus(t.Context(), spec(tt.ref), false)
			n.ok(err)
			if resp.Image.GetId() != id {
				t.Errorf("the image is %v, want ID %s", resp.Image, id)
			}
		})
	}
	if _, err := n.PullImage(t.Context(), spec("broken:1"), nil, nil); !errors.Is(err, broken) {
		t.Errorf("the cause is lost: %v", err)
	}
	pulls := n.Pulls()
	login1 := pulls[6]
	if login1.Image != "private/app:latest" || login1.Ref != "docker.io/private/app:latest" || login1.Auth.GetUsername() != "user" || login1.PodName != "web" || login1.Err != nil {
		t.Errorf("record of the pull with login: %+v", login1)
	}
}

func TestRegistryOnly(t *testing.T) {
	n := newNode(t, memory.Options{RegistryOnly: true, Registry: map[string]memory.RemoteImage{"app:1": {}, "B A D": {}}, Images: []memory.Image{{Ref: "B A D"}}})
	n.pull("app:1")
	if _, err := n.PullImage(t.Context(), spec("app:2"), nil, nil); status.Code(err) != codes.NotFound {
		t.Errorf("pull of an unknown image: %v", err)
	}
	n.ok(n.SetRemote("app:2", memory.RemoteImage{}))
	n.pull("app:2")
	if err := n.SetRemote("B A D", memory.RemoteImage{}); err == nil {
		t.Error("a bad reference is taken")
	}
}

func TestATagMoves(t *testing.T) {
	n := newNode(t, memory.Options{})
	old := n.pull("app")
	sandbox := n.sandbox(podConfig("web"))
	id, err := n.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: spec(old)}, nil)
	n.ok(err)
	if st := n.status(id); st.Image.Image != "docker.io/library/app:latest" || st.ImageId != old {
		t.Errorf("created by image ID: %v", st)
	}
	n.ok(n.SetRemote("app", memory.RemoteImage{Image: memory.Image{Digest: "sha256:" + strings.Repeat("77", 32)}}))
	if next := n.pull("app"); next == old {
		t.Error("the pull brought the old image")
	}
	if st := n.status(id); st.Image.Image != old || !strings.Contains(st.ImageRef, "docker.io/library/app@sha256:") {
		t.Errorf("the container of the old image: %v", st)
	}
	n.ok(n.RemoveImage(t.Context(), spec(old)))
	if st := n.status(id); st.ImageRef != old || st.ImageId != old {
		t.Errorf("the container of a removed image: %v", st)
	}
	fs, err := n.ImageFsInfo(t.Context())
	n.ok(err)
	if got := fs.ImageFilesystems[0].UsedBytes.Value; got != 1<<20 {
		t.Errorf("one image of the default size uses %d", got)
	}
}

func TestSlowPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Registry: map[string]memory.RemoteImage{"big": {PullTime: time.Minute}}, CallTimeout: time.Second})
		began := time.Now()
		n.pull("big")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		if p := n.Pulls()[0]; p.Ended.Sub(p.Time) != time.Minute {
			t.Errorf("recorded as %+v", p)
		}
	})
}
