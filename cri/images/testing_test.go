package images_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/images"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is an images.Service whose behaviour a test sets.
type service struct {
	// pull decides about a call of PullImage; nil succeeds.
	pull func(ctx context.Context, image string, auth *runtimeapi.AuthConfig) error
	// status fails ImageStatus.
	status func(image string) error
	// noUser and user are what images say of their user.
	uid  *runtimeapi.Int64Value
	user string

	mu      sync.Mutex
	present map[string]bool
	pulls   []string // "image user"
	asked   []string
	running int
	most    int
}

func (s *service) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, spec.GetImage())
	if s.status != nil {
		if err := s.status(spec.GetImage()); err != nil {
			return nil, err
		}
	}
	if !s.present[spec.GetImage()] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "sha256:" + spec.GetImage(), Uid: s.uid, Username: s.user, Size: 42}}, nil
}

func (s *service) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	s.mu.Lock()
	s.pulls = append(s.pulls, spec.GetImage()+" "+auth.GetUsername())
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	var err error
	if s.pull != nil {
		err = s.pull(ctx, spec.GetImage(), auth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if err != nil {
		return "", err
	}
	if s.present == nil {
		s.present = map[string]bool{}
	}
	s.present[spec.GetImage()] = true
	return "sha256:" + spec.GetImage(), nil
}

func (s *service) pulled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.pulls...)
}

// events records "type reason message".
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(eventType, reason, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, eventType+" "+reason+" "+fmt.Sprintf(format, args...))
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.list
	e.list = nil
	return l
}

func request(uid, image string) images.Request {
	return images.Request{
		Pod:       &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-" + uid, UID: types.UID(uid)}},
		Container: "app", Image: image,
	}
}

func configJSON(name, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(content)},
	}
}

func dockercfg(name, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: []byte(content)},
	}
}

// logins makes a config.json with a login of password "geheim" for each
// registry and user.
func logins(pairs ...string) string {
	s := `{"auths":{`
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprintf(`%q:{"username":%q,"password":"geheim"}`, pairs[i], pairs[i+1])
	}
	return s + "}}"
}
