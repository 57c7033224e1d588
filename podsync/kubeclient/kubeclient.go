// Package kubeclient makes REST clients for the few groups of the Kubernetes API
// that a node agent speaks to. They know these groups only: client-go's clientset
// registers every type there is, which costs an agent of a small machine more
// memory than all its pods do.
//
// What takes a rest.Interface of this package also takes that of a clientset:
// clientset.CoreV1().RESTClient().
package kubeclient

import (
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// The kubelet's rates: requests a second, and how many at once after a pause.
const (
	defaultQPS   = 50
	defaultBurst = 100
)

// Client is one REST client for each group. All share one connection and one
// rate limit. Safe for concurrent use.
type Client struct {
	// Core is for v1: pods, nodes, events, secrets, config maps, services,
	// service accounts' tokens, claims and volumes.
	Core rest.Interface
	// Coordination is for leases.
	Coordination rest.Interface
	// Node is for runtime classes.
	Node rest.Interface
	// Storage is for CSI drivers and volume attachments.
	Storage rest.Interface
	// Authentication and Authorization are for reviews of tokens and of access.
	Authentication, Authorization rest.Interface
	// Parameters encodes the options of requests.
	Parameters runtime.ParameterCodec
}

// Scheme returns a new scheme with the types of these groups.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	var errs []error
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, nodev1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		errs = append(errs, add(s))
	}
	return s, errors.Join(errs...)
}

// New makes the clients. cfg is not changed. Its QPS and Burst default to the
// kubelet's 50 and 100; requests are in protobuf unless it says otherwise.
func New(cfg *rest.Config) (*Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("kubeclient: %w", err)
	}
	base := rest.CopyConfig(cfg)
	if base.QPS == 0 {
		base.QPS = defaultQPS
	}
	if base.Burst == 0 {
		base.Burst = defaultBurst
	}
	if base.ContentType == "" {
		base.ContentType = runtime.ContentTypeProtobuf
		base.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	base.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	http, err := rest.HTTPClientFor(base)
	if err != nil {
		return nil, fmt.Errorf("kubeclient: %w", err)
	}
	c := &Client{Parameters: runtime.NewParameterCodec(scheme)}
	for _, g := range []struct {
		to *rest.Interface
		gv schema.GroupVersion
	}{
		{&c.Core, corev1.SchemeGroupVersion}, {&c.Coordination, coordinationv1.SchemeGroupVersion},
		{&c.Node, nodev1.SchemeGroupVersion}, {&c.Storage, storagev1.SchemeGroupVersion},
		{&c.Authentication, authenticationv1.SchemeGroupVersion}, {&c.Authorization, authorizationv1.SchemeGroupVersion},
	} {
		one := rest.CopyConfig(base)
		one.GroupVersion = &g.gv
		one.APIPath = "/apis"
		if g.gv.Group == "" {
			one.APIPath = "/api"
		}
		if one.RateLimiter == nil && c.Core != nil {
			one.RateLimiter = c.Core.GetRateLimiter()
		}
		r, err := rest.RESTClientForConfigAndClient(one, http)
		if err != nil {
			return nil, fmt.Errorf("kubeclient: group %q: %w", g.gv, err)
		}
		*g.to = r
	}
	return c, nil
}
