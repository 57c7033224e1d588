package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// hostDir makes a directory of the test's on the machine.
func (r *rig) hostDir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(r.dir, "host", name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// events are the lines of the agent's log about a pod that are events.
func (r *rig) events(name string) string {
	var b strings.Builder
	for l := range strings.Lines(r.log.String()) {
		if strings.Contains(l, "msg=event pod=default/"+name+"-"+nodeName+" ") {
			b.WriteString(l)
		}
	}
	return b.String()
}

// freePort is a TCP port that nobody listens at.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestHostNetwork(t *testing.T) {
	r := sharedRig(t)
	port := freePort(t)
	r.apply(t, "hostnet", pod("hostnet", fmt.Sprintf(`
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: $REGISTRY/busybox:1
    command: [sh, -c, "mkdir /www; echo host >/www/index.html; exec httpd -f -p 127.0.0.1:%d -h /www"]
    ports: [{containerPort: %d}]
`, port, port)))
	p := r.waitReady(t, "hostnet")
	if p.Status.PodIP != "127.0.0.1" || p.Status.HostIP != "127.0.0.1" {
		t.Errorf("podIP %s, hostIP %s", p.Status.PodIP, p.Status.HostIP)
	}
	r.eventually(t, func() error {
		page, err := get(t.Context(), fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err == nil && page != "host\n" {
			err = fmt.Errorf("page %q", page)
		}
		return err
	})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := r.sh(t, p, "web", "hostname"); got != host {
		t.Errorf("hostname %q, the machine's is %q", got, host)
	}
	r.remove(t, "hostnet")
	r.waitGone(t, p)
}

func TestHostPort(t *testing.T) {
	r := sharedRig(t)
	port := freePort(t)
	spec := fmt.Sprintf(`
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: $REGISTRY/busybox:1
    command: [sh, -c, "mkdir /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www"]
    ports: [{containerPort: 8080, hostPort: %d}]
`, port)
	r.apply(t, "hostport", pod("hostport", spec))
	p := r.waitReady(t, "hostport")
	gateway := strings.TrimSuffix(r.Subnet(), "0/24") + "1"
	reached := func() error {
		page, err := get(t.Context(), fmt.Sprintf("http://%s/", net.JoinHostPort(gateway, fmt.Sprint(port))))
		if err == nil && page != "hostport-e2e\n" {
			err = fmt.Errorf("page %q", page)
		}
		return err
	}
	r.eventually(t, reached)

	// A second pod that wants the same port is refused.
	r.apply(t, "hostport2", pod("hostport2", spec))
	q := r.wait(t, "hostport2", "refused", inPhase(corev1.PodFailed))
	if q.Status.Reason != "NodePorts" && !strings.Contains(q.Status.Reason+q.Status.Message, "port") {
		t.Errorf("reason %s, message %s", q.Status.Reason, q.Status.Message)
	}
	if cs := r.listed(t, q); len(cs) != 0 || q.Status.PodIP != "" {
		t.Errorf("something was made for a refused pod: %v", cs)
	}
	r.remove(t, "hostport2")
	r.waitGone(t, q)
	r.remove(t, "hostport")
	r.waitGone(t, p)
	if reached() == nil {
		t.Error("the host port still answers")
	}
}

// Volumes of the machine's: hostPath of several types, a subPath of one, and
// what the pod may do there.
func TestHostPathAndSubPath(t *testing.T) {
	r := sharedRig(t)
	dir := r.hostDir(t, "paths")
	if err := os.MkdirAll(dir+"/sub/inner", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"file": "a file\n", "sub/inner/x": "inner\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := `
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sleep, "100000"]
    env: [{name: WHERE, value: inner}]
    volumeMounts:
    - {name: dir, mountPath: /dir}
    - {name: dir, mountPath: /inner, subPathExpr: sub/$(WHERE), readOnly: true}
    - {name: file, mountPath: /file, readOnly: true}
    - {name: new, mountPath: /new}
    - {name: scratch, mountPath: /s1, subPath: one}
    - {name: scratch, mountPath: /s2, subPath: two}
  volumes:
  - {name: dir, hostPath: {path: DIR, type: Directory}}
  - {name: file, hostPath: {path: DIR/file, type: File}}
  - {name: new, hostPath: {path: DIR/new, type: DirectoryOrCreate}}
  - {name: scratch, emptyDir: {}}
`
	r.apply(t, "paths", pod("paths", strings.ReplaceAll(spec, "DIR", dir)))
	p := r.waitReady(t, "paths")
	for script, want := range map[string]string{
		"cat /file /inner/x":                            "a file\ninner",
		"echo out >/dir/out; cat /dir/out":              "out",
		"echo y >/new/y; echo 1 >/s1/a; ls /s2 | wc -l": "0",
		"touch /inner/z 2>&1 || true":                   "touch: /inner/z: Read-only file system",
		"echo z >/file 2>/dev/null || echo refused":     "refused",
	} {
		if got := r.sh(t, p, "app", script); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	if got := readFile(t, dir+"/out") + readFile(t, dir+"/new/y"); got != "out\ny\n" {
		t.Errorf("the machine sees %q", got)
	}
	r.remove(t, "paths")
	r.waitGone(t, p)
	for _, f := range []string{"file", "out", "new/y", "sub/inner/x"} {
		if !exists(filepath.Join(dir, f)) {
			t.Errorf("%s of the hostPath volume is gone", f)
		}
	}

	missing := strings.ReplaceAll(spec, "DIR/file, type: File", "DIR/none, type: File")
	r.apply(t, "nopath", pod("nopath", strings.ReplaceAll(missing, "DIR", dir)))
	r.eventually(t, func() error {
		if e := r.events("nopath"); !strings.Contains(e, "FailedMount") || !strings.Contains(e, dir+"/none") {
			return fmt.Errorf("no event about the missing file:\n%s", e)
		}
		return nil
	})
	p = r.wait(t, "nopath", "pending", inPhase(corev1.PodPending))
	r.remove(t, "nopath")
	r.waitGone(t, p)
}

func TestSecurityContext(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "secure", pod("secure", `
  terminationGracePeriodSeconds: 0
  shareProcessNamespace: true
  securityContext: {runAsUser: 1234, runAsGroup: 2345, fsGroup: 3456, supplementalGroups: [4567], sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "80"}]}
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sleep, "100000"]
    securityContext: {readOnlyRootFilesystem: true, capabilities: {add: [NET_ADMIN]}}
    volumeMounts: [{name: data, mountPath: /data}]
  - name: root
    image: $REGISTRY/busybox:1
    command: [sleep, "100001"]
    securityContext: {runAsUser: 0, privileged: true}
  volumes: [{name: data, emptyDir: {}}]
`))
	p := r.waitReady(t, "secure")
	for _, tt := range []struct{ container, script, want string }{
		{"app", "id -u; id -g; id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' '", "1234\n2345\n2345 3456 4567 "},
		{"app", "touch /data/x && stat -c '%u %g' /data/x", "1234 3456"},
		{"app", "stat -c '%a %g' /data", "2777 3456"},
		{"app", "touch /x 2>/dev/null || echo refused", "refused"},
		{"app", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", "80"},
		{"app", "ps -o args | grep -c '^sleep 10000[01]'", "2"},
		{"app", "cat /proc/1/comm", "pause"},
		{"root", "id -u", "0"},
		{"root", "test -e /dev/loop-control && echo privileged", "privileged"},
	} {
		if got := r.sh(t, p, tt.container, tt.script); got != tt.want {
			t.Errorf("%s: %s: got %q, want %q", tt.container, tt.script, got, tt.want)
		}
	}
	r.remove(t, "secure")
	r.waitGone(t, p)
}

func TestNamesInThePod(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "names", pod("names", `
  terminationGracePeriodSeconds: 0
  hostname: chosen
  subdomain: sub
  dnsPolicy: None
  dnsConfig: {nameservers: [10.1.2.3], searches: [a.example, b.example], options: [{name: ndots, value: "2"}, {name: edns0}]}
  hostAliases: [{ip: 10.9.8.7, hostnames: [other.example, other]}]
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sleep, "100000"]
    env:
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: TEXT, value: "at $(IP), not $$(IP)"}
`))
	p := r.waitReady(t, "names")
	for script, want := range map[string]string{
		"hostname":                  "chosen",
		"echo $TEXT; echo $HOST_IP": "at " + p.Status.PodIP + ", not $(IP)\n127.0.0.1",
		"cat /etc/resolv.conf":      "search a.example b.example\nnameserver 10.1.2.3\noptions ndots:2 edns0",
	} {
		if got := r.sh(t, p, "app", script); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	hosts := r.sh(t, p, "app", "cat /etc/hosts")
	for _, want := range []string{`127\.0\.0\.1\s+localhost`, regexp.QuoteMeta(p.Status.PodIP) + `\s.*\bchosen\b`, `10\.9\.8\.7\s+other\.example\s+other`} {
		if !regexp.MustCompile(want).MatchString(hosts) {
			t.Errorf("/etc/hosts lacks %s:\n%s", want, hosts)
		}
	}
	r.remove(t, "names")
	r.waitGone(t, p)
}

func TestTerminationMessage(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "lastwords", pod("lastwords", `
  restartPolicy: Never
  containers:
  - {name: file, image: $REGISTRY/busybox:1, command: [sh, -c, "echo -n from the file >/dev/termination-log; echo log; exit 1"]}
  - {name: own, image: $REGISTRY/busybox:1, terminationMessagePath: /tmp/words, command: [sh, -c, "echo -n own path >/tmp/words"]}
  - {name: logs, image: $REGISTRY/busybox:1, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "echo from the log; exit 1"]}
  - {name: none, image: $REGISTRY/busybox:1, command: [sh, -c, "echo nothing"]}
`))
	p := r.wait(t, "lastwords", "failed", inPhase(corev1.PodFailed))
	for name, want := range map[string]string{"file": "from the file", "own": "own path", "logs": "from the log\n", "none": ""} {
		if e := containerStatus(p, name).State.Terminated; e == nil || e.Message != want {
			t.Errorf("%s: %+v, want the message %q", name, e, want)
		}
	}
	r.remove(t, "lastwords")
	r.waitGone(t, p)
}

// What is wrong with an image is told, and tried again.
func TestImageProblems(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "images", pod("images", `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: absent, image: $REGISTRY/nowhere:1}
  - {name: never, image: $REGISTRY/library/busybox:1, imagePullPolicy: Never}
  - {name: invalid, image: "$REGISTRY/Bad Name:1"}
  - {name: good, image: $REGISTRY/busybox:1, command: [sleep, "100000"]}
`))
	waiting := func(p corev1.Pod, name string, reasons ...string) bool {
		w := containerStatus(p, name).State.Waiting
		for _, reason := range reasons {
			if w != nil && w.Reason == reason {
				return true
			}
		}
		return false
	}
	p := r.wait(t, "images", "waiting for images", func(p corev1.Pod) bool {
		return waiting(p, "absent", "ErrImagePull", "ImagePullBackOff") && waiting(p, "never", "ErrImageNeverPull") &&
			waiting(p, "invalid", "InvalidImageName") && containerStatus(p, "good").State.Running != nil
	})
	if p.Status.Phase != corev1.PodPending {
		t.Errorf("status: %s", summary(p))
	}
	r.remove(t, "images")
	r.waitGone(t, p)
}
