// Package apitoken makes service account tokens by the TokenRequest of a
// Kubernetes API server.
package apitoken

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/volumes"
)

// The kubelet's rules: a token is replaced after 80 % of its life and at the
// latest after a day, spread over some seconds.
const (
	lifeUsed       = 0.8
	oldest         = 24 * time.Hour
	spread         = 10 * time.Second
	requestTimeout = 10 * time.Second
	// unusedFor is how long after its end a token that nobody asked for is kept.
	unusedFor = time.Minute
)

// Source is a volumes.TokenSource. Tokens are bound to their pod, are kept in
// memory only, and are asked for once while they are fresh. When the server
// cannot be reached a token that has not expired is given. Safe for concurrent use.
type Source struct {
	// Client is a REST client of the API's v1. Required.
	Client rest.Interface
	// Clock is for tests; nil is the real one.
	Clock clock.PassiveClock

	mu     sync.Mutex
	tokens map[key]*token
}

var _ volumes.TokenSource = (*Source)(nil)

type key struct {
	pod      types.UID
	account  string
	audience string
	validity time.Duration
}

type token struct {
	value              string
	refreshAt, expires time.Time
}

// Token implements volumes.TokenSource.
func (s *Source) Token(ctx context.Context, pod *corev1.Pod, audience string, validity time.Duration) (volumes.Token, error) {
	now := s.now()
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	k := key{pod.UID, pod.Namespace + "/" + account, audience, validity}
	s.mu.Lock()
	s.dropExpiredLocked(now)
	have := s.tokens[k]
	s.mu.Unlock()
	if have != nil && now.Before(have.refreshAt) {
		return volumes.Token{Value: have.value, RefreshAt: have.refreshAt}, nil
	}
	fresh, err := s.request(ctx, pod, account, audience, validity)
	if err != nil {
		if have != nil && now.Before(have.expires) {
			return volumes.Token{Value: have.value, RefreshAt: now.Add(time.Minute)}, nil
		}
		return volumes.Token{}, fmt.Errorf("token of service account %s/%s for pod %s/%s: %w", pod.Namespace, account, pod.Namespace, pod.Name, err)
	}
	s.mu.Lock()
	if s.tokens == nil {
		s.tokens = map[key]*token{}
	}
	s.tokens[k] = fresh
	s.mu.Unlock()
	return volumes.Token{Value: fresh.value, RefreshAt: fresh.refreshAt}, nil
}

func (s *Source) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock.Now()
}

func (s *Source) dropExpiredLocked(now time.Time) {
	for k, t := range s.tokens {
		if now.After(t.expires.Add(unusedFor)) {
			delete(s.tokens, k)
		}
	}
}

func (s *Source) request(ctx context.Context, pod *corev1.Pod, account, audience string, validity time.Duration) (*token, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	seconds := int64(validity / time.Second)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		req.Spec.Audiences = []string{audience}
	}
	out := &authenticationv1.TokenRequest{}
	err := s.Client.Post().Namespace(pod.Namespace).Resource("serviceaccounts").Name(account).SubResource("token").Body(req).Do(ctx).Into(out)
	if err != nil {
		return nil, err
	}
	now := s.now()
	life := time.Duration(seconds) * time.Second
	if out.Spec.ExpirationSeconds != nil {
		life = time.Duration(*out.Spec.ExpirationSeconds) * time.Second
	}
	expires := out.Status.ExpirationTimestamp.Time
	if out.Status.ExpirationTimestamp == (metav1.Time{}) {
		expires = now.Add(life)
	}
	refresh := expires.Add(-time.Duration(float64(life) * (1 - lifeUsed)))
	if latest := now.Add(oldest); refresh.After(latest) {
		refresh = latest
	}
	return &token{value: out.Status.Token, expires: expires, refreshAt: refresh.Add(-rand.N(spread))}, nil
}
