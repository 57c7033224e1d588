package cgroups_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
	"github.com/podsync/sdk/podsync"
)

// A pod's cgroup, on a manager that writes plain files.
func Example() {
	root, err := os.MkdirTemp("", "cgroups")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	m, err := cgroups.NewDir(root, cgroups.Options{CgroupRoot: "/edge"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := podsync.NewSync(cgroupstest.Pod("1234-abcd", "250m", "500m"))
	fmt.Println(cgroups.Ensure(m).Run(context.Background(), s))
	parent, _ := podsync.CgroupParent.Get(s)
	fmt.Println(parent)
	// Output:
	// Continue
	// /edge/kubepods/burstable/pod1234-abcd
}

func ExamplePodName() {
	root, _ := cgroups.NewName("kubepods")
	n, _ := cgroups.PodName(root, corev1.PodQOSBurstable, "1234-abcd")
	fmt.Println(cgroups.Cgroupfs.Path(n))
	fmt.Println(cgroups.Systemd.Path(n))
	_, err := cgroups.PodName(root, corev1.PodQOSBurstable, "a/b")
	fmt.Println(err)
	// Output:
	// /kubepods/burstable/pod1234-abcd
	// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd.slice
	// cgroup name "poda/b": byte '/' cannot be mapped back from every driver's spelling
}

func ExampleValues_ForPod() {
	r := cgroups.Values{PidsLimit: 1000}.ForPod(cgroupstest.Pod("u", "250m", "500m"))
	fmt.Println(r.CPUShares, r.CPUQuota, r.CPUPeriod, r.Memory, r.Pids)
	// Output: 256 50000 100000 -1 1000
}
