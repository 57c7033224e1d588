package memory

import (
	"slices"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streamBatch is how many items one message of a list stream carries.
const streamBatch = 500

func sendBatches[T any](items []T, send func([]T) error) error {
	for batch := range slices.Chunk(items, streamBatch) {
		if err := send(batch); err != nil {
			return err
		}
	}
	return nil
}

// The list streams are the list calls in pieces; to faults and records they are those calls.

func (s *runtimeServer) StreamPodSandboxes(q *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	items, err := s.r.ListPodSandbox(stream.Context(), q.GetFilter())
	if err != nil {
		return err
	}
	return sendBatches(items, func(b []*runtimeapi.PodSandbox) error {
		return stream.Send(&runtimeapi.StreamPodSandboxesResponse{PodSandboxes: b})
	})
}

func (s *runtimeServer) StreamContainers(q *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	items, err := s.r.ListContainers(stream.Context(), q.GetFilter())
	if err != nil {
		return err
	}
	return sendBatches(items, func(b []*runtimeapi.Container) error {
		return stream.Send(&runtimeapi.StreamContainersResponse{Containers: b})
	})
}

func (s *imageServer) StreamImages(q *runtimeapi.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	items, err := s.r.ListImages(stream.Context(), q.GetFilter())
	if err != nil {
		return err
	}
	return sendBatches(items, func(b []*runtimeapi.Image) error {
		return stream.Send(&runtimeapi.StreamImagesResponse{Images: b})
	})
}
