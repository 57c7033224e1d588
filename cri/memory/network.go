package memory

import (
	"errors"
	"fmt"
	"net/netip"
)

// errNoNetwork is containerd's answer when no CNI network is configured.
var errNoNetwork = errors.New("cni plugin not initialized")

// pool gives out the addresses of one range, round robin as host-local does, so that an address that was just
// freed is not at once another pod's. The network's own address and the gateway's (the first) are not given.
type pool struct {
	prefix netip.Prefix
	last   netip.Addr
	used   map[netip.Addr]bool
}

func newPool(p netip.Prefix) *pool {
	p = p.Masked()
	return &pool{prefix: p, last: p.Addr().Next(), used: map[netip.Addr]bool{}}
}

func (p *pool) take() (netip.Addr, error) {
	start := p.last
	for a := start.Next(); ; a = a.Next() {
		if !p.prefix.Contains(a) || p.isBroadcast(a) {
			a = p.prefix.Addr().Next() // wrap to the gateway; the loop steps over it
			if a == start {
				break
			}
			continue
		}
		if !p.used[a] {
			p.used[a], p.last = true, a
			return a, nil
		}
		if a == start {
			break
		}
	}
	return netip.Addr{}, fmt.Errorf("no IP addresses available in range set: %s", p.prefix)
}

func (p *pool) isBroadcast(a netip.Addr) bool { return a.Is4() && !p.prefix.Contains(a.Next()) }

// attach gives a sandbox its addresses. The lock is held.
func (r *Runtime) attach(s *sandbox) error {
	if !r.cond.network.Status {
		return errNoNetwork
	}
	for _, p := range r.state.pools {
		a, err := p.take()
		if err != nil {
			r.detach(s)
			return err
		}
		s.ips = append(s.ips, a.String())
	}
	return nil
}

// detach frees a sandbox's addresses. The lock is held.
func (r *Runtime) detach(s *sandbox) {
	for i, ip := range s.ips {
		if a, err := netip.ParseAddr(ip); err == nil {
			delete(r.state.pools[i].used, a)
		}
	}
	s.ips = nil
}
