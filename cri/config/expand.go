package config

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Expand replaces each $(NAME) of s by the value that lookup gives. A name that
// lookup does not know stays as it is, $$ becomes $, anything else after a $
// stays. Values are not expanded again.
func Expand(s string, lookup func(name string) (string, bool)) string {
	i := strings.IndexByte(s, '$')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0 && i+1 < len(s); i = strings.IndexByte(s, '$') {
		b.WriteString(s[:i])
		s = s[i:]
		switch s[1] {
		case '$':
			b.WriteByte('$')
			s = s[2:]
		case '(':
			end := strings.IndexByte(s, ')')
			if end < 0 {
				b.WriteString(s[:2])
				s = s[2:]
				continue
			}
			if v, ok := lookup(s[2:end]); ok {
				b.WriteString(v)
			} else {
				b.WriteString(s[:end+1])
			}
			s = s[end+1:]
		default:
			b.WriteString(s[:2])
			s = s[2:]
		}
	}
	b.WriteString(s)
	return b.String()
}

// envLookup looks names up in an environment. It is linear: command lines with
// references are short, and most have none.
func envLookup(env []*runtimeapi.KeyValue) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, kv := range env {
			if kv.Key == name {
				return string(kv.Value), true
			}
		}
		return "", false
	}
}

func expandAll(in []string, lookup func(string) (string, bool)) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = Expand(s, lookup)
	}
	return out
}

// expandStrict is Expand for paths: a name that is not known is an error, since
// a literal $(NAME) is no directory that anybody wants.
func expandStrict(s string, lookup func(string) (string, bool)) (string, error) {
	missing := ""
	out := Expand(s, func(name string) (string, bool) {
		v, ok := lookup(name)
		if !ok && missing == "" {
			missing = name
		}
		return v, ok
	})
	if missing != "" {
		return "", configErrorf("%q refers to the variable %s, which the container does not have", s, missing)
	}
	return out, nil
}
