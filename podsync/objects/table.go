package objects

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// key names an object.
type key struct{ kind, namespace, name string }

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// table is a set of objects that is never changed once it is made.
type table struct {
	secrets    map[key]*corev1.Secret
	configMaps map[key]*corev1.ConfigMap
}

func (t table) secret(namespace, name string) (*corev1.Secret, error) {
	if s := t.secrets[key{kindSecret, namespace, name}]; s != nil {
		return s, nil
	}
	return nil, &NotFoundError{kindSecret, namespace, name}
}

func (t table) configMap(namespace, name string) (*corev1.ConfigMap, error) {
	if c := t.configMaps[key{kindConfigMap, namespace, name}]; c != nil {
		return c, nil
	}
	return nil, &NotFoundError{kindConfigMap, namespace, name}
}

// finishSecret does what the API server does with a secret that is posted:
// stringData is folded into data, which it wins over; the type is set.
func finishSecret(s *corev1.Secret) {
	s.TypeMeta = metav1.TypeMeta{}
	if s.Namespace == "" {
		s.Namespace = metav1.NamespaceDefault
	}
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	if len(s.StringData) > 0 {
		data := maps.Clone(s.Data)
		if data == nil {
			data = make(map[string][]byte, len(s.StringData))
		}
		for k, v := range s.StringData {
			data[k] = []byte(v)
		}
		s.Data, s.StringData = data, nil
	}
}

func finishConfigMap(c *corev1.ConfigMap) {
	c.TypeMeta = metav1.TypeMeta{}
	if c.Namespace == "" {
		c.Namespace = metav1.NamespaceDefault
	}
}
