package cnitest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/cni/cnitest"
	"github.com/podsync/sdk/podsync"
)

// modem is a Checker of a site: there is a network while the modem is connected.
type modem struct {
	bus *podsync.Bus

	mu        sync.Mutex
	connected bool
}

func (m *modem) Ready(context.Context) (ready bool, reason, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.connected {
		return false, "ModemOffline", "the modem is not connected"
	}
	return true, "", ""
}

func (m *modem) set(connected bool) {
	m.mu.Lock()
	m.connected = connected
	m.mu.Unlock()
	if connected {
		m.bus.Publish(podsync.TopicNetworkReady)
	}
}

// The suite on a Checker of a site.
func Example() {
	_ = func(t *testing.T) {
		cnitest.Checker(t, func(_ *testing.T, bus *podsync.Bus) (cni.Checker, func(bool)) {
			m := &modem{bus: bus}
			return m, m.set
		})
	}
}
