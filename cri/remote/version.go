package remote

import (
	"context"
	"fmt"
	"time"

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

// probe makes one call of each service before the client is built: the client
// does the same, but leaves its connection open when the call fails, and such a
// connection goes on trying for ever. It returns what the runtime says of itself.
func probe(ctx context.Context, endpoint, imageEndpoint string, timeout time.Duration) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := connect(endpoint)
	if err != nil {
		return Version{}, fmt.Errorf("connect to the container runtime at %s: %w", endpoint, err)
	}
	defer conn.Close()
	v, err := askVersion(ctx, conn, WantAPI)
	switch {
	case grpcstatus.Code(err) == codes.Unimplemented:
		ve := &VersionError{Endpoint: endpoint, Err: err}
		if old, err := askVersion(ctx, conn, "v1alpha2"); err == nil {
			ve.Found = old
		}
		return Version{}, ve
	case err != nil:
		return Version{}, fmt.Errorf("connect to the container runtime at %s: %w", endpoint, err)
	}
	if imageEndpoint != endpoint {
		ic, err := connect(imageEndpoint)
		if err != nil {
			return Version{}, fmt.Errorf("connect to the image service at %s: %w", imageEndpoint, err)
		}
		defer ic.Close()
		conn = ic
	}
	_, err = runtimeapi.NewImageServiceClient(conn).ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	switch {
	case grpcstatus.Code(err) == codes.Unimplemented:
		return Version{}, &VersionError{Endpoint: imageEndpoint, Err: err}
	case err != nil:
		return Version{}, fmt.Errorf("connect to the image service at %s: %w", imageEndpoint, err)
	}
	return v, nil
}

func connect(endpoint string) (*grpc.ClientConn, error) {
	addr, dialer, err := util.GetAddressAndDialer(endpoint)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithContextDialer(dialer))
}

// askVersion asks for the version in one version of CRI; the messages of this
// call are the same in v1alpha2 and v1.
func askVersion(ctx context.Context, conn *grpc.ClientConn, api string) (Version, error) {
	var v runtimeapi.VersionResponse
	if err := conn.Invoke(ctx, "/runtime."+api+".RuntimeService/Version", &runtimeapi.VersionRequest{}, &v); err != nil {
		return Version{}, err
	}
	return Version{Runtime: v.RuntimeName, RuntimeVersion: v.RuntimeVersion, API: v.RuntimeApiVersion}, nil
}
