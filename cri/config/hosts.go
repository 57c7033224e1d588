package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// EtcHosts is where the hosts file is mounted in a container.
const EtcHosts = "/etc/hosts"

// The parts of a managed hosts file that do not depend on the pod. They are the
// kubelet's, down to the first line by which tools recognise the file.
const (
	hostsHeader     = "# Kubernetes-managed hosts file.\n"
	hostsHeaderNode = "# Kubernetes-managed hosts file (host network).\n"
	hostsAliases    = "\n# Entries added by HostAliases.\n"
	hostsLocal      = "127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
)

// HostsFile returns the content of a pod's managed hosts file. For a pod of its
// own network it is made of the pod's addresses and names; nodeHosts, the
// node's own hosts file, is used for a pod of the host's network alone.
func HostsFile(pod *corev1.Pod, node *Node, podIPs []string, nodeHosts []byte) ([]byte, error) {
	var b bytes.Buffer
	if pod.Spec.HostNetwork {
		b.WriteString(hostsHeaderNode)
		b.Write(nodeHosts)
	} else {
		host, domain, err := Hostname(pod, node)
		if err != nil {
			return nil, err
		}
		b.WriteString(hostsHeader)
		b.WriteString(hostsLocal)
		for _, ip := range podIPs {
			if domain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s\t%s\n", ip, host, domain, host)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, host)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString(hostsAliases)
	}
	for _, a := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.Bytes(), nil
}

// WriteHostsFile writes the hosts file at path with mode 0644, in place, because
// running containers have it mounted; it follows no link and leaves a file
// alone that has the content already. What a container appended is cut off.
func WriteHostsFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return fmt.Errorf("hosts file: %w", err)
	}
	if err := rewrite(f, content); err != nil {
		f.Close()
		return fmt.Errorf("hosts file: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("hosts file: %w", err)
	}
	return nil
}

// rewrite makes content the whole of f. The file is never empty in between.
func rewrite(f *os.File, content []byte) error {
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", f.Name())
	}
	if st.Size() == int64(len(content)) {
		old, err := io.ReadAll(io.LimitReader(f, st.Size()))
		if err == nil && bytes.Equal(old, content) && st.Mode().Perm() == 0o644 {
			return nil
		}
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}
