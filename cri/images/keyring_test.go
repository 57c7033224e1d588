package images_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/images"
)

func users(k *images.Keyring, image string) string {
	var list []string
	for _, c := range k.Lookup(image) {
		list = append(list, c.Auth().GetUsername())
	}
	return strings.Join(list, " ")
}

func TestCase_IMG_02_KeysOfRegistries(t *testing.T) {
	for _, tt := range []struct {
		key  string
		hits []string
	}{
		{"registry.local:5000", []string{"registry.local:5000/app"}},
		{"registry.local", []string{"registry.local/app", "registry.local/team/app", "registry.local/team-b/x"}},
		{"*.example.com", []string{"a.example.com/x"}},
		{"*.*.example.com", []string{"a.b.example.com/x"}},
		{"registry.local/*/app", nil},
		// As in the kubelet the path is a plain prefix: "team" opens "team-b" too.
		{"registry.local/team", []string{"registry.local/team/app", "registry.local/team-b/x"}},
		{"registry.local/team/", []string{"registry.local/team/app"}},
		{"https://registry.local/v2/", []string{"registry.local/app", "registry.local/team/app", "registry.local/team-b/x"}},
		{"http://registry.local/v2", []string{"registry.local/app", "registry.local/team/app", "registry.local/team-b/x"}},
		{"https://registry.local/v1/team/", []string{"registry.local/team/app"}},
		{"registry.local:*", nil},
		{"[", nil}, {"[.example.com", nil}, {"", nil}, {"http://%zz", nil},
		{"docker.io", []string{"busybox", "docker.io/library/busybox", "index.docker.io/library/busybox"}},
		{"https://index.docker.io/v1/", []string{"busybox", "docker.io/library/busybox", "index.docker.io/library/busybox"}},
		{"registry-1.docker.io", []string{"busybox", "docker.io/library/busybox", "index.docker.io/library/busybox"}},
		{"docker.io/team", nil},
	} {
		k, err := images.NewKeyring([]*corev1.Secret{configJSON("s", logins(tt.key, "u"))})
		if err != nil {
			t.Fatal(err)
		}
		var hits []string
		for _, image := range []string{
			"registry.local:5000/app", "registry.local/app", "registry.local/team/app", "registry.local/team-b/x",
			"a.example.com/x", "a.b.example.com/x", "example.com/x",
			"busybox", "docker.io/library/busybox", "index.docker.io/library/busybox", "Bad/Name",
		} {
			if users(k, image) == "u" {
				hits = append(hits, image)
			}
		}
		if d := cmp.Diff(tt.hits, hits); d != "" {
			t.Errorf("key %q: %s", tt.key, d)
		}
	}
	if got := (*images.Keyring)(nil).Lookup("busybox"); got != nil {
		t.Errorf("nil keyring: %v", got)
	}
}

func TestCase_IMG_03_OrderOfCredentials(t *testing.T) {
	k, err := images.NewKeyring([]*corev1.Secret{
		configJSON("a", logins("registry.local", "host1", "registry.local/team/app", "app", "registry.local/team", "team")),
		nil,
		configJSON("b", logins("registry.local", "host2")),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := users(k, "registry.local/team/app:1"); got != "app team host1 host2" {
		t.Error(got)
	}
}

func TestCase_IMG_05_MalformedSecret(t *testing.T) {
	good := configJSON("good", logins("registry.local", "u"))
	auth := base64.StdEncoding.EncodeToString([]byte("sesamsesam"))
	for _, tt := range []struct {
		name string
		bad  *corev1.Secret
		want string
	}{
		{"no colon", configJSON("bad", fmt.Sprintf(`{"auths":{"registry.local":{"auth":%q}}}`, auth)), "no colon"},
		{"no base64", configJSON("bad", `{"auths":{"registry.local":{"auth":"sesam!"}}}`), "not base64"},
		{"wrong shape", configJSON("bad", `{"auths":{"registry.local":{"password":123456}}}`), "another shape"},
		{"wrong shape of all", configJSON("bad", `{"auths":"sesam"}`), "another shape"},
		{"no JSON", configJSON("bad", `sesam`), "not valid JSON"},
	} {
		_, err := images.NewKeyring([]*corev1.Secret{good, tt.bad})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "shop/bad") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "sesam") || strings.Contains(err.Error(), "123456") || strings.Contains(err.Error(), auth)) {
			t.Errorf("%s: the error shows the secret: %v", tt.name, err)
		}
	}
	for _, s := range []*corev1.Secret{
		{Type: corev1.SecretTypeDockerConfigJson},
		{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: {}}},
		{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(logins("registry.local", "opaque"))}},
		configJSON("helper", `{"auths":{"registry.local":{}}}`),
		configJSON("null", `null`),
	} {
		k, err := images.NewKeyring([]*corev1.Secret{s, good})
		if err != nil || users(k, "registry.local/app") != "u" {
			t.Errorf("%v: %q, %v", s.Type, users(k, "registry.local/app"), err)
		}
	}
}

func TestCase_IMG_07_Shapes(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("u:p"))
	legacy := fmt.Sprintf(`{"https://registry.local":{"auth":%q}}`, auth)
	current := fmt.Sprintf(`{"auths":%s}`, legacy)
	for _, tt := range []struct {
		name    string
		secret  *corev1.Secret
		want    string
		wantErr bool
	}{
		{"(a) legacy", dockercfg("s", legacy), "u", false},
		{"(b) legacy as config.json", configJSON("s", legacy), "", false},
		{"(c) config.json as legacy", dockercfg("s", current), "", false},
		{"(d) encoded twice", configJSON("s", base64.StdEncoding.EncodeToString([]byte(current))), "", true},
		{"config.json", configJSON("s", current), "u", false},
		{"unpadded", configJSON("s", `{"auths":{"registry.local":{"auth":"`+strings.TrimRight(auth, "=")+`"}}}`), "u", false},
	} {
		k, err := images.NewKeyring([]*corev1.Secret{tt.secret})
		if got := users(k, "registry.local/app"); got != tt.want || (err != nil) != tt.wantErr {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

func TestParseConfigOfTheNode(t *testing.T) {
	k, err := images.ParseConfig([]byte(`{"auths":{"registry.local":{"auth":"dTpw","identitytoken":"tok"}},"credsStore":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	c := k.Lookup("registry.local/app")
	if len(c) != 1 || c[0].Auth().GetIdentityToken() != "tok" || c[0].Auth().GetPassword() != "p" || c[0].Source() != "node" || c[0].Key() != "registry.local" {
		t.Errorf("got %v", c)
	}
	if _, err := images.ParseConfig([]byte("{")); err == nil {
		t.Error("junk was accepted")
	}
}

func TestACredentialShowsNothing(t *testing.T) {
	k, err := images.NewKeyring([]*corev1.Secret{configJSON("s", logins("registry.local", "u"))})
	if err != nil {
		t.Fatal(err)
	}
	c := k.Lookup("registry.local/app")
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		raw = fmt.Appendf(raw, verb, c)
		raw = fmt.Appendf(raw, verb, c[0])
	}
	if strings.Contains(string(raw), "geheim") {
		t.Errorf("it shows: %s", raw)
	}
	if got := c[0].String(); got != "credential for registry.local of secret shop/s" {
		t.Error(got)
	}
}
