package probe

import (
	"context"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/plan"
)

// grpc runs a grpc probe: the service's health must be SERVING.
func (h *Handlers) grpc(ctx context.Context, r Request, a *corev1.GRPCAction, limit time.Duration) (Result, error) {
	name, err := host("", r)
	if err != nil {
		return Result{}, err
	}
	addr := net.JoinHostPort(name, strconv.Itoa(int(a.Port)))
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithUserAgent(userAgent), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return h.dial(ctx, "tcp", addr) }))
	if err != nil {
		return failure("%v", err), nil
	}
	defer conn.Close() //nolint:errcheck // it was used for one call
	service := ""
	if a.Service != nil {
		service = *a.Service
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	switch st, _ := status.FromError(err); {
	case err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_SERVING:
		return Result{Verdict: plan.Success, Message: "service healthy"}, nil
	case err == nil:
		return failure("service unhealthy (responded with %q)", resp.GetStatus().String()), nil
	case st.Code() == codes.Unimplemented:
		return failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", st.Message()), nil
	case st.Code() == codes.DeadlineExceeded || ctx.Err() != nil:
		return failure("timeout: health rpc did not complete within %s", limit), nil
	case st.Code() == codes.Unavailable:
		return failure("timeout: failed to connect service %q within %s: %s", addr, limit, st.Message()), nil
	default:
		return failure("error: health rpc probe failed: %v", err), nil
	}
}
