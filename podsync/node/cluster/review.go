package cluster

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/node/kubeletapi"
)

// The kubelet's times for which an answer of the API server is believed.
const (
	tokenTTL     = 2 * time.Minute
	allowedTTL   = 5 * time.Minute
	forbiddenTTL = 30 * time.Second
	// mostCached bounds the answers that are kept.
	mostCached = 1000
)

// Reviewer guards a node's API as the kubelet does: by client certificates of an
// authority, and by bearer tokens that the API server reviews; and it asks the API
// server whether the user may do that with the node. Safe for concurrent use.
type Reviewer struct {
	// Client is how the API server is reached. Required.
	Client *kubeclient.Client
	// Node is the node's name.
	Node string
	// ClientCAs verify client certificates; nil takes none. The server's TLS
	// configuration has to ask for them.
	ClientCAs *x509.CertPool

	mu      sync.Mutex
	tokens  map[[sha256.Size]byte]cached[*kubeletapi.Identity]
	answers map[string]cached[answer]
}

var (
	_ kubeletapi.Authenticator = (*Reviewer)(nil)
	_ kubeletapi.Authorizer    = (*Reviewer)(nil)
)

type cached[T any] struct {
	value T
	until time.Time
}

type answer struct {
	allowed bool
	reason  string
}

// Authenticate implements kubeletapi.Authenticator.
func (v *Reviewer) Authenticate(r *http.Request) (*kubeletapi.Identity, bool, error) {
	if v.ClientCAs != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return v.byCertificate(r)
	}
	kind, token, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); !ok || !strings.EqualFold(kind, "bearer") || token == "" {
		return nil, false, nil
	}
	// The token itself is not kept.
	key := sha256.Sum256([]byte(token))
	now := time.Now()
	v.mu.Lock()
	have, known := v.tokens[key]
	v.mu.Unlock()
	if known && now.Before(have.until) {
		return have.value, have.value != nil, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	out := &authenticationv1.TokenReview{}
	if err := v.Client.Authentication.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(out); err != nil {
		return nil, false, fmt.Errorf("review a token: %w", err)
	}
	var id *kubeletapi.Identity
	if out.Status.Authenticated {
		u := out.Status.User
		id = &kubeletapi.Identity{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}
		for k, val := range u.Extra {
			id.Extra[k] = val
		}
	}
	v.mu.Lock()
	v.tokens = remember(v.tokens, key, cached[*kubeletapi.Identity]{id, now.Add(tokenTTL)}, now)
	v.mu.Unlock()
	return id, id != nil, nil
}

func (v *Reviewer) byCertificate(r *http.Request) (*kubeletapi.Identity, bool, error) {
	leaf := r.TLS.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: v.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, false, fmt.Errorf("verify the client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, false, errors.New("the client certificate has no common name")
	}
	return &kubeletapi.Identity{Name: leaf.Subject.CommonName, Groups: leaf.Subject.Organization}, true, nil
}

// Authorize implements kubeletapi.Authorizer. The narrowest subresource is asked
// for first, then the wider one.
func (v *Reviewer) Authorize(ctx context.Context, id *kubeletapi.Identity, a kubeletapi.Attributes) (bool, string, error) {
	var last answer
	for _, sub := range a.Subresources {
		ans, err := v.ask(ctx, id, a.Verb, sub)
		if err != nil {
			return false, "", err
		}
		if ans.allowed {
			return true, ans.reason, nil
		}
		last = ans
	}
	return false, last.reason, nil
}

func (v *Reviewer) ask(ctx context.Context, id *kubeletapi.Identity, verb, sub string) (answer, error) {
	key := fmt.Sprintf("%q %q %q %q %q %q", id.Name, id.UID, id.Groups, id.Extra, verb, sub)
	now := time.Now()
	v.mu.Lock()
	have, known := v.answers[key]
	v.mu.Unlock()
	if known && now.Before(have.until) {
		return have.value, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: id.Name, UID: id.UID, Groups: id.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: v.Node,
		},
	}}
	for k, val := range id.Extra {
		review.Spec.Extra[k] = val
	}
	out := &authorizationv1.SubjectAccessReview{}
	if err := v.Client.Authorization.Post().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(out); err != nil {
		return answer{}, fmt.Errorf("review the access of %q to nodes/%s: %w", id.Name, sub, err)
	}
	ans, ttl := answer{out.Status.Allowed && !out.Status.Denied, out.Status.Reason}, forbiddenTTL
	if ans.allowed {
		ttl = allowedTTL
	}
	v.mu.Lock()
	v.answers = remember(v.answers, key, cached[answer]{ans, now.Add(ttl)}, now)
	v.mu.Unlock()
	return ans, nil
}

// remember adds an entry and drops those that are over; a cache that is full all
// the same begins anew.
func remember[K comparable, T any](m map[K]cached[T], key K, c cached[T], now time.Time) map[K]cached[T] {
	if len(m) >= mostCached {
		for k, old := range m {
			if !now.Before(old.until) {
				delete(m, k)
			}
		}
		if len(m) >= mostCached {
			m = nil
		}
	}
	if m == nil {
		m = map[K]cached[T]{}
	}
	m[key] = c
	return m
}
