package podsync

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Topic names something that may happen and that a waiting pod may wait for. A
// site's own topics carry a domain: "example.com/LicenseChanged".
type Topic string

// The topics that the SDK's own stages wait for and backends publish.
const (
	// TopicNetworkReady: the runtime's or CNI's network became ready.
	TopicNetworkReady Topic = "NetworkReady"
	// TopicVolumesChanged: a volume of the pod was mounted or its mount failed.
	TopicVolumesChanged Topic = "VolumesChanged"
	// TopicObjectsChanged: a ConfigMap, Secret or the like changed or appeared.
	TopicObjectsChanged Topic = "ObjectsChanged"
	// TopicImagePulled: an image pull ended, well or not.
	TopicImagePulled Topic = "ImagePulled"
	// TopicProbed: the verdict of a probe of the pod changed.
	TopicProbed Topic = "Probed"
	// TopicRoomFreed: an admitted pod gave its resources back.
	TopicRoomFreed Topic = "RoomFreed"
	// TopicNodeChanged: the node's labels, taints or allocatable resources changed.
	TopicNodeChanged Topic = "NodeChanged"
)

// Bus carries topics from backends to the agent. The zero value and a nil Bus
// are ready to use; a nil Bus drops what is published. Safe for concurrent use.
type Bus struct {
	mu   sync.Mutex
	subs map[int]func(Topic, []types.UID)
	next int
}

// NewBus makes an empty bus.
func NewBus() *Bus { return &Bus{} }

// Publish tells every subscriber that the topic happened, for the pods named or
// for every pod when none is. It does not block on a pod's work: the agent only
// notes which pods to run.
func (b *Bus) Publish(t Topic, uids ...types.UID) {
	if b == nil {
		return
	}
	b.mu.Lock()
	fns := make([]func(Topic, []types.UID), 0, len(b.subs))
	for _, fn := range b.subs {
		fns = append(fns, fn)
	}
	b.mu.Unlock()
	for _, fn := range fns {
		fn(t, uids)
	}
}

// Subscribe calls fn for every topic published from now on, on the publisher's
// goroutine; fn must not block. uids is empty when every pod is meant. The
// returned function ends the subscription.
func (b *Bus) Subscribe(fn func(t Topic, uids []types.UID)) (cancel func()) {
	if b == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[int]func(Topic, []types.UID){}
	}
	id := b.next
	b.next++
	b.subs[id] = fn
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs, id)
	}
}
