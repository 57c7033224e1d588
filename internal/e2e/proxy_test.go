package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A call is a call that changes something, on its way from the agent to the runtime.
type call struct {
	method string // without the service
	uid    string // of the pod that it is for, "" when that is not to be seen
	n      int    // which call of its pod, from 1
	nth    int    // which call of its pod and method, from 1
}

func (c call) String() string {
	return fmt.Sprintf("%s, call %d of pod %q", c.method, c.n, c.uid)
}

// An interceptor decides what becomes of a call. ctx ends when the agent gives the
// call up or dies; forward makes the call. What is returned is what the agent gets.
type interceptor func(ctx context.Context, c call, forward func(context.Context) error) error

// A proxy stands between an agent and a runtime's socket and does to calls what
// a test wants.
type proxy struct {
	endpoint string
	close    func() error

	mu  sync.Mutex
	ids map[string]string // of sandboxes and containers, to pod UIDs
	n   map[string]int    // calls by pod UID, and by pod UID and method
	all []call
	// intercept is asked about each call that changes something; nil passes it on.
	intercept interceptor

	wg sync.WaitGroup
}

// newProxy starts a proxy before the runtime at the endpoint.
func newProxy(t *testing.T, socket, endpoint string) *proxy {
	t.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(frames{}), grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{endpoint: "unix://" + socket, ids: map[string]string{}, n: map[string]int{}}
	srv := grpc.NewServer(grpc.ForceServerCodec(frames{}), grpc.MaxRecvMsgSize(16<<20),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return p.handle(s, conn) }))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	p.close = func() error {
		srv.Stop()
		err := <-served
		p.wg.Wait()
		return errors.Join(err, conn.Close())
	}
	return p
}

// on sets what is done to calls; nil passes them on.
func (p *proxy) on(f interceptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intercept = f
}

// calls are the calls so far that changed something.
func (p *proxy) calls() []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// mutates tells whether a method changes something.
func mutates(method string) bool {
	switch method {
	case "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "StopContainer",
		"RemoveContainer", "PullImage", "UpdateContainerResources", "UpdatePodSandboxResources", "ExecSync", "RemoveImage":
		return true
	}
	return false
}

func (p *proxy) handle(s grpc.ServerStream, conn *grpc.ClientConn) error {
	full, _ := grpc.MethodFromServerStream(s)
	method := path.Base(full)
	if strings.HasPrefix(method, "Get") || strings.HasPrefix(method, "Stream") {
		return stream(s, conn, full)
	}
	var request, reply frame
	if err := s.RecvMsg(&request); err != nil {
		return err
	}
	ctx := s.Context()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	if !mutates(method) {
		if err := conn.Invoke(ctx, full, &request, &reply); err != nil {
			return err
		}
		return s.SendMsg(&reply)
	}
	c, f := p.note(method, request)
	forward := func(ctx context.Context) error {
		p.wg.Add(1)
		defer p.wg.Done()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := conn.Invoke(ctx, full, &request, &reply); err != nil {
			return err
		}
		p.learn(method, request, reply)
		return nil
	}
	var err error
	if f != nil {
		err = f(ctx, c, forward)
	} else {
		err = forward(ctx)
	}
	if err != nil {
		return err
	}
	return s.SendMsg(&reply)
}

// note counts a call.
func (p *proxy) note(method string, request frame) (call, interceptor) {
	uid, id := subject(method, request)
	p.mu.Lock()
	defer p.mu.Unlock()
	if uid == "" {
		uid = p.ids[id]
	}
	p.n[uid]++
	p.n[uid+" "+method]++
	c := call{method: method, uid: uid, n: p.n[uid], nth: p.n[uid+" "+method]}
	p.all = append(p.all, c)
	return c, p.intercept
}

// subject is the pod UID in a request, or else the id of its sandbox or container.
func subject(method string, request frame) (uid, id string) {
	switch method {
	case "RunPodSandbox":
		var r runtimeapi.RunPodSandboxRequest
		_ = proto.Unmarshal(request, &r)
		return r.GetConfig().GetMetadata().GetUid(), ""
	case "PullImage":
		var r runtimeapi.PullImageRequest
		_ = proto.Unmarshal(request, &r)
		return r.GetSandboxConfig().GetMetadata().GetUid(), ""
	default:
		// The id is the first field of all the others.
		var r runtimeapi.StopPodSandboxRequest
		_ = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(request, &r)
		return "", r.PodSandboxId
	}
}

// learn notes which pod a new sandbox or container is of.
func (p *proxy) learn(method string, request, reply frame) {
	uid, id := subject(method, request)
	var made runtimeapi.RunPodSandboxResponse // the id is the first field of both
	switch method {
	case "RunPodSandbox", "CreateContainer":
		_ = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(reply, &made)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if uid == "" {
		uid = p.ids[id]
	}
	p.ids[made.PodSandboxId] = uid
}

// stream passes a stream of the runtime on.
func stream(s grpc.ServerStream, conn *grpc.ClientConn, full string) error {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, full)
	if err != nil {
		return err
	}
	var request frame
	if err := s.RecvMsg(&request); err != nil {
		return err
	}
	if err := errors.Join(out.SendMsg(&request), out.CloseSend()); err != nil {
		return err
	}
	for {
		var m frame
		if err := out.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

// frame is a message as it is on the wire.
type frame []byte

// frames is the codec that leaves messages as they are.
type frames struct{}

var _ encoding.Codec = frames{}

func (frames) Name() string                    { return "proto" }
func (frames) Marshal(v any) ([]byte, error)   { return *v.(*frame), nil }
func (frames) Unmarshal(b []byte, v any) error { *v.(*frame) = slices.Clone(b); return nil }

// errInjected is what the agent gets of a call that was made to fail.
var errInjected = status.Error(codes.Internal, "injected")
