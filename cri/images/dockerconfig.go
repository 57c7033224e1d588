package images

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SecretError says that a pull secret cannot be read. Its text shows nothing of
// the secret's content.
type SecretError struct {
	// Namespace and Name are the secret's.
	Namespace, Name string

	err error
}

// Error names the secret and what is wrong with it.
func (e *SecretError) Error() string {
	return fmt.Sprintf("pull secret %s/%s: %v", e.Namespace, e.Name, e.err)
}

// Unwrap returns the cause.
func (e *SecretError) Unwrap() error { return e.err }

// login is one entry of a Docker configuration.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// auth returns the login for CRI, nil for an entry that has none: Docker writes
// such ones where a credential helper keeps the rest.
func (l login) auth() *runtimeapi.AuthConfig {
	if l.Username == "" && l.Password == "" && l.IdentityToken == "" && l.RegistryToken == "" {
		return nil
	}
	return &runtimeapi.AuthConfig{
		Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken,
	}
}

// parseConfigJSON reads the form {"auths": {registry: login}}.
func parseConfigJSON(data []byte) (map[string]login, error) {
	var c struct {
		Auths json.RawMessage `json:"auths"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, plainJSONError(err)
	}
	if len(c.Auths) == 0 {
		return nil, nil
	}
	return parseLogins(c.Auths)
}

// parseLogins reads the legacy form {registry: login}.
func parseLogins(data []byte) (map[string]login, error) {
	var m map[string]login
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, plainJSONError(err)
	}
	for name, l := range m {
		if l.Auth == "" {
			continue
		}
		// The field that Docker writes wins over the two that people write.
		user, password, err := decodeAuth(l.Auth)
		if err != nil {
			return nil, fmt.Errorf("registry %q: %w", name, err)
		}
		l.Username, l.Password = user, password
		m[name] = l
	}
	return m, nil
}

// decodeAuth takes user and password out of base64("user:password").
func decodeAuth(s string) (user, password string, err error) {
	s = strings.TrimSpace(s)
	enc := base64.RawStdEncoding
	if strings.HasSuffix(s, "=") {
		enc = base64.StdEncoding
	}
	raw, err := enc.DecodeString(s)
	if err != nil {
		return "", "", fmt.Errorf("auth is not base64: %w", err)
	}
	user, password, ok := strings.Cut(string(raw), ":")
	if !ok {
		return "", "", errors.New("auth is not base64 of username:password: it has no colon")
	}
	return user, strings.TrimRight(password, "\x00"), nil
}

// plainJSONError says what is wrong with a JSON text without quoting it.
func plainJSONError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("JSON of another shape at byte %d: want %s", kind.Offset, kind.Type.Kind())
	default:
		return errors.New("not valid JSON")
	}
}
