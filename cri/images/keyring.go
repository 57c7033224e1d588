package images

import (
	"cmp"
	"crypto/sha256"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Credential is a way to log in to a registry. Printed by any verb, it shows
// where it comes from and no secret part.
type Credential struct {
	auth   *runtimeapi.AuthConfig
	key    string
	source string
}

// Auth returns the login as CRI wants it. It must not be changed or printed.
func (c Credential) Auth() *runtimeapi.AuthConfig { return c.auth }

// Key returns the registry key that it was found under, as in
// "registry.example.com/team".
func (c Credential) Key() string { return c.key }

// Source returns where it comes from, as in "secret shop/registry" or "node".
func (c Credential) Source() string { return c.source }

// String returns the key and the source.
func (c Credential) String() string { return "credential for " + c.key + " of " + c.source }

// GoString is String.
func (c Credential) GoString() string { return c.String() }

// identity tells logins apart without keeping them.
func (c Credential) identity() [sha256.Size]byte {
	h := sha256.New()
	a := c.auth
	for _, s := range [...]string{a.GetUsername(), a.GetPassword(), a.GetAuth(), a.GetServerAddress(), a.GetIdentityToken(), a.GetRegistryToken()} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Keyring finds the credentials for an image. It is immutable and safe for
// concurrent use; nil is an empty one.
type Keyring struct {
	// entries are sorted by key, descending, so that of two keys of which one
	// begins with the other the longer comes first.
	entries []keyEntry
}

type keyEntry struct {
	host, path string
	cred       Credential
}

// NewKeyring makes a keyring of pull secrets of the types
// kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg. Secrets of
// another type, or without the key of their type, are left out. A secret that
// cannot be read is a *SecretError that names it.
func NewKeyring(secrets []*corev1.Secret) (*Keyring, error) {
	k := &Keyring{}
	for _, s := range secrets {
		if s == nil {
			continue
		}
		var logins map[string]login
		var err error
		switch {
		case s.Type == corev1.SecretTypeDockerConfigJson && len(s.Data[corev1.DockerConfigJsonKey]) > 0:
			logins, err = parseConfigJSON(s.Data[corev1.DockerConfigJsonKey])
		case s.Type == corev1.SecretTypeDockercfg && len(s.Data[corev1.DockerConfigKey]) > 0:
			logins, err = parseLogins(s.Data[corev1.DockerConfigKey])
		}
		if err != nil {
			return nil, &SecretError{Namespace: s.Namespace, Name: s.Name, err: err}
		}
		k.add("secret "+s.Namespace+"/"+s.Name, logins)
	}
	k.sort()
	return k, nil
}

// ParseConfig makes a keyring of the content of a Docker config.json file, for
// the node's own credentials.
func ParseConfig(data []byte) (*Keyring, error) {
	logins, err := parseConfigJSON(data)
	if err != nil {
		return nil, err
	}
	k := &Keyring{}
	k.add("node", logins)
	k.sort()
	return k, nil
}

// add adds the logins of one source, in an order of its own.
func (k *Keyring) add(source string, logins map[string]login) {
	names := make([]string, 0, len(logins))
	for name := range logins {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		auth := logins[name].auth()
		host, p, ok := splitKey(name)
		if auth == nil || !ok {
			continue
		}
		k.entries = append(k.entries, keyEntry{host, p, Credential{auth: auth, key: host + p, source: source}})
	}
}

// sort keeps entries of one key in the order of the secrets.
func (k *Keyring) sort() {
	slices.SortStableFunc(k.entries, func(a, b keyEntry) int { return cmp.Compare(b.cred.key, a.cred.key) })
}

// splitKey takes the host, with its port, and the path out of a registry key.
// A path of the registry's own API (/v1/, /v2/) does not count, and the old
// names of Docker's registry are taken as docker.io.
func splitKey(key string) (host, p string, ok bool) {
	raw := key
	if !strings.HasPrefix(raw, "https://") && !strings.HasPrefix(raw, "http://") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", "", false
	}
	host, p = u.Host, u.Path
	for _, api := range [...]string{"/v1", "/v2"} {
		rest, ok := strings.CutPrefix(p, api)
		// Without its final slash it may be a repository's path, save in an URL.
		if ok && (strings.HasPrefix(rest, "/") || (rest == "" && raw == key)) {
			p = rest
			break
		}
	}
	if p == "/" {
		p = ""
	}
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return host, p, true
}

// Lookup returns the credentials for an image in the order in which they are to
// be tried: most specific key first, then in the order of the secrets. Ports
// must be equal, a '*' stands for one label of the host name, the path is a
// plain prefix, as the kubelet has it: a key for "registry/team" also opens
// "registry/team-b". A name that is no image reference has none.
func (k *Keyring) Lookup(image string) []Credential {
	_, repository, err := parseName(image)
	if err != nil {
		return nil
	}
	return k.lookup(repository)
}

// lookup is Lookup for a repository's full name.
func (k *Keyring) lookup(repository string) []Credential {
	if k == nil {
		return nil
	}
	host, p, _ := strings.Cut(repository, "/")
	p = "/" + p
	var list []Credential
	for _, e := range k.entries {
		if strings.HasPrefix(p, e.path) && hostMatches(e.host, host) {
			list = append(list, e.cred)
		}
	}
	return list
}

// hostMatches compares label by label, so that a '*' never spans a dot.
func hostMatches(pattern, host string) bool {
	if pattern == host {
		return true
	}
	ph, pp := splitPort(pattern)
	hh, hp := splitPort(host)
	if pp != hp || strings.Count(ph, ".") != strings.Count(hh, ".") {
		return false
	}
	for ph != "" || hh != "" {
		var pl, hl string
		pl, ph, _ = strings.Cut(ph, ".")
		hl, hh, _ = strings.Cut(hh, ".")
		if ok, err := path.Match(pl, hl); err != nil || !ok {
			return false
		}
	}
	return true
}

func splitPort(hostport string) (host, port string) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return hostport, ""
	}
	return host, port
}
