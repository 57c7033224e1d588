package podsynctest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// ObjectsBackend is a podsync.Objects and what stands behind it.
type ObjectsBackend struct {
	// Objects is what is tested. If it has a method Run(context.Context) error it
	// is run.
	Objects podsync.Objects
	// Secret and ConfigMap make the object exist, or replace it.
	Secret    func(t *testing.T, s *corev1.Secret)
	ConfigMap func(t *testing.T, m *corev1.ConfigMap)
	// Delete removes both of that name.
	Delete func(t *testing.T, namespace, name string)
	// Silent tells that the objects never publish a change.
	Silent bool
}

// Objects tests an implementation of podsync.Objects. create makes one that is
// empty and publishes on bus; it is called once for each part.
func Objects(t *testing.T, create func(t *testing.T, bus *podsync.Bus) ObjectsBackend) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(t *testing.T, k *objectsKit)
	}{
		{"what is not there is not found", objectsNotFound},
		{"what is there is found", objectsFound},
		{"kinds and namespaces lie apart", objectsApart},
		{"a change is seen and told", objectsChange},
		{"what was handed out stays", objectsStay},
		{"an ended context does not block", objectsEnded},
		{"many at once", objectsMany},
	} {
		t.Run(part.name, func(t *testing.T) {
			k := &objectsKit{told: make(chan struct{}, 1)}
			bus := podsync.NewBus()
			t.Cleanup(bus.Subscribe(func(topic podsync.Topic, _ []types.UID) {
				if topic == podsync.TopicObjectsChanged {
					select {
					case k.told <- struct{}{}:
					default:
					}
				}
			}))
			k.ObjectsBackend = create(t, bus)
			if r, ok := k.Objects.(interface{ Run(context.Context) error }); ok {
				inBackground(t, "Run", r.Run)
			}
			part.run(t, k)
		})
	}
}

type objectsKit struct {
	ObjectsBackend
	told chan struct{}
}

func testSecret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"key": []byte(value), "binary": {0, 0xff, '\n'}},
	}
}

func testConfigMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"key": value},
	}
}

// put makes one object of each kind exist.
func (k *objectsKit) put(t *testing.T, namespace, name, value string) {
	t.Helper()
	k.Secret(t, testSecret(namespace, name, value))
	k.ConfigMap(t, testConfigMap(namespace, name, value))
}

// becomes waits until both objects of the name have the value, "" for not found.
func (k *objectsKit) becomes(t *testing.T, namespace, name, value string) {
	t.Helper()
	eventually(t, func() error {
		s, err := k.Objects.Secret(t.Context(), namespace, name)
		if err := found("Secret", namespace, name, value, err, func() string { return string(s.Data["key"]) }); err != nil {
			return err
		}
		m, err := k.Objects.ConfigMap(t.Context(), namespace, name)
		return found("ConfigMap", namespace, name, value, err, func() string { return m.Data["key"] })
	})
}

func found(kind, namespace, name, want string, err error, value func() string) error {
	switch {
	case want == "" && !errors.Is(err, podsync.ErrNotFound):
		return fmt.Errorf("%s %s/%s: error %v, want one that is podsync.ErrNotFound", kind, namespace, name, err)
	case want == "":
		return nil
	case err != nil:
		return fmt.Errorf("%s %s/%s: %w", kind, namespace, name, err)
	case value() != want:
		return fmt.Errorf("%s %s/%s has %q, want %q", kind, namespace, name, value(), want)
	}
	return nil
}

func objectsNotFound(t *testing.T, k *objectsKit) {
	k.becomes(t, "default", "none", "")
	k.put(t, "default", "some", "1")
	k.becomes(t, "default", "some", "1")
	k.becomes(t, "default", "none", "")
}

func objectsFound(t *testing.T, k *objectsKit) {
	k.put(t, "default", "a", "1")
	k.becomes(t, "default", "a", "1")
	s, err := k.Objects.Secret(t.Context(), "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	want := testSecret("default", "a", "1")
	if s.Namespace != "default" || s.Name != "a" || s.Type != want.Type || !cmp.Equal(want.Data, s.Data) {
		t.Errorf("the secret came back as %s/%s of type %s with keys that differ or data that does", s.Namespace, s.Name, s.Type)
	}
	m, err := k.Objects.ConfigMap(t.Context(), "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	if m.Namespace != "default" || m.Name != "a" || len(m.Data) != 1 {
		t.Errorf("the config map came back as %s/%s: %v", m.Namespace, m.Name, m.Data)
	}
}

func objectsApart(t *testing.T, k *objectsKit) {
	k.Secret(t, testSecret("default", "s", "secret"))
	k.ConfigMap(t, testConfigMap("default", "m", "map"))
	k.put(t, "default", "both", "here")
	k.put(t, "other", "both", "there")
	k.becomes(t, "default", "both", "here")
	k.becomes(t, "other", "both", "there")
	if _, err := k.Objects.ConfigMap(t.Context(), "default", "s"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("a config map of the secret's name: %v, want ErrNotFound", err)
	}
	if _, err := k.Objects.Secret(t.Context(), "default", "m"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("a secret of the config map's name: %v, want ErrNotFound", err)
	}
	k.Delete(t, "default", "both")
	k.becomes(t, "default", "both", "")
	k.becomes(t, "other", "both", "there")
}

// wake waits until a change was told of.
func (k *objectsKit) wake(t *testing.T, what string) {
	t.Helper()
	if k.Silent {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-k.told:
	case <-timer.C:
		t.Fatalf("nobody was told of %s for %v", what, patience)
	}
}

func objectsChange(t *testing.T, k *objectsKit) {
	for _, step := range []struct{ what, value string }{
		{"a new object", "1"}, {"a change", "2"}, {"a removal", ""}, {"an object that came back", "3"},
	} {
		for len(k.told) > 0 {
			<-k.told
		}
		if step.value == "" {
			k.Delete(t, "default", "a")
		} else {
			k.put(t, "default", "a", step.value)
		}
		k.wake(t, step.what)
		k.becomes(t, "default", "a", step.value)
	}
}

func objectsStay(t *testing.T, k *objectsKit) {
	k.put(t, "default", "a", "old")
	k.becomes(t, "default", "a", "old")
	s, err := k.Objects.Secret(t.Context(), "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.Objects.ConfigMap(t.Context(), "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	oldSecret, oldMap := s.DeepCopy(), m.DeepCopy()
	k.put(t, "default", "a", "new")
	k.becomes(t, "default", "a", "new")
	if !cmp.Equal(oldSecret, s) || !cmp.Equal(oldMap, m) {
		t.Error("an object that was handed out changed when the original did")
	}
}

func objectsEnded(t *testing.T, k *objectsKit) {
	k.put(t, "default", "a", "1")
	k.becomes(t, "default", "a", "1")
	soon(t, "Secret and ConfigMap", func(ctx context.Context) {
		_, errSecret := k.Objects.Secret(ctx, "default", "a")
		_, errMap := k.Objects.ConfigMap(ctx, "default", "a")
		if err := errors.Join(errSecret, errMap); errors.Is(err, podsync.ErrNotFound) {
			t.Errorf("an object that is there is not found by a caller whose context has ended: %v", err)
		}
	})
}

func objectsMany(t *testing.T, k *objectsKit) {
	k.put(t, "default", "a", "1")
	k.becomes(t, "default", "a", "1")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := k.Objects.Secret(t.Context(), "default", "a"); err != nil {
					t.Errorf("Secret beside other calls: %v", err)
					return
				}
				if _, err := k.Objects.ConfigMap(t.Context(), "default", "none"); !errors.Is(err, podsync.ErrNotFound) {
					t.Errorf("ConfigMap beside other calls: %v", err)
					return
				}
			}
		})
	}
	for i := range 5 {
		k.put(t, "default", fmt.Sprintf("b%d", i), "1")
	}
	wg.Wait()
}
