package realruntime

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// claimSubnet picks a /24 of 10.213.0.0/16 that no interface of this machine has and no other instance holds.
// The claim is an abstract socket: it belongs to this network namespace, as bridges do, and goes with the process.
func claimSubnet() (netip.Prefix, net.Listener, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, nil, fmt.Errorf("pick a subnet: %w", err)
	}
	var taken []netip.Prefix
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			taken = append(taken, p.Masked())
		}
	}
	first := rand.IntN(256)
	for n := range 256 {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(first + n), 0}), 24)
		if overlaps(subnet, taken) {
			continue
		}
		claim, err := net.Listen("unix", "@podsync-subnet-"+subnet.Addr().String())
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return netip.Prefix{}, nil, fmt.Errorf("claim subnet %s: %w", subnet, err)
		}
		return subnet, claim, nil
	}
	return netip.Prefix{}, nil, errors.New("pick a subnet: all of 10.213.0.0/16 is in use")
}

func overlaps(p netip.Prefix, taken []netip.Prefix) bool {
	for _, t := range taken {
		if p.Overlaps(t) {
			return true
		}
	}
	return false
}

// removeBridge deletes a bridge and the interfaces that are plugged into it.
func removeBridge(name string) error {
	ports, err := os.ReadDir(filepath.Join("/sys/class/net", name, "brif"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	var errs []error
	for _, p := range ports {
		errs = append(errs, removeLink(p.Name()))
	}
	return errors.Join(append(errs, removeLink(name))...)
}

// removeLink deletes a network interface by an RTM_DELLINK message; one that is not there is fine.
func removeLink(name string) error {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		if _, statErr := os.Stat(filepath.Join("/sys/class/net", name)); errors.Is(statErr, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	defer unix.Close(fd)
	const length = unix.SizeofNlMsghdr + unix.SizeofIfInfomsg
	request := make([]byte, length)
	binary.NativeEndian.PutUint32(request[0:], length)
	binary.NativeEndian.PutUint16(request[4:], unix.RTM_DELLINK)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	binary.NativeEndian.PutUint32(request[unix.SizeofNlMsghdr+4:], uint32(iface.Index))
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("remove interface %s: reply of %d bytes", name, n)
	}
	// The acknowledgement carries a negative error number, or 0.
	code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:]))
	if code != 0 && unix.Errno(-code) != unix.ENODEV {
		return fmt.Errorf("remove interface %s: %w", name, unix.Errno(-code))
	}
	return nil
}
