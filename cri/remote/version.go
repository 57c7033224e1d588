package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/util"
)

// WantAPI is the version of the Container Runtime Interface that is spoken.
const WantAPI = "v1"

// VersionError says that what answers does not speak CRI v1.
type VersionError struct {
	// Endpoint is who answered.
	Endpoint string
	// Found is what it says of itself in the version that it does speak; its
	// API is "" when that was not found out.
	Found Version
	// Err is what it answered to v1.
	Err error
}

// Error names both versions and the way out.
func (e *VersionError) Error() string {
	const cure = "use containerd 1.6 or later, CRI-O 1.23 or later, or cri-dockerd"
	if e.Found.API == "" {
		return fmt.Sprintf("%s does not serve CRI %s (%v); %s, with its CRI plugin enabled", e.Endpoint, WantAPI, e.Err, cure)
	}
	return fmt.Sprintf("%s is %s %s and serves CRI %s, not %s; %s", e.Endpoint, e.Found.Runtime, e.Found.RuntimeVersion, e.Found.API, WantAPI, cure)
}

// Unwrap returns what the runtime answered to v1.
func (e *VersionError) Unwrap() error { return e.Err }

// explain turns an error of connecting into one that says what is wrong.
func explain(ctx context.Context, endpoint string, err error) error {
	if code(err) != codes.Unimplemented {
		return fmt.Errorf("connect to the container runtime at %s: %w", endpoint, err)
	}
	ve := &VersionError{Endpoint: endpoint, Err: err}
	if v, oldErr := oldVersion(ctx, endpoint); oldErr == nil {
		ve.Found = v
	}
	return ve
}

func code(err error) codes.Code {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if s, ok := e.(interface{ GRPCStatus() *grpcstatus.Status }); ok {
			return s.GRPCStatus().Code()
		}
	}
	return codes.Unknown
}

// oldVersion asks for the version in CRI v1alpha2, whose messages for this call
// are those of v1.
func oldVersion(ctx context.Context, endpoint string) (Version, error) {
	addr, dialer, err := util.GetAddressAndDialer(endpoint)
	if err != nil {
		return Version{}, err
	}
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(addr, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) { return dialer(ctx, a) }))
	if err != nil {
		return Version{}, err
	}
	defer conn.Close()
	var v runtimeapi.VersionResponse
	if err := conn.Invoke(ctx, "/runtime.v1alpha2.RuntimeService/Version", &runtimeapi.VersionRequest{}, &v); err != nil {
		return Version{}, err
	}
	return Version{Runtime: v.RuntimeName, RuntimeVersion: v.RuntimeVersion, API: v.RuntimeApiVersion}, nil
}
