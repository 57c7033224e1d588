package cgroups

import (
	"errors"
	"fmt"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/systemd"
)

// ErrNoSystemd says that the systemd driver was asked for on a host that systemd
// does not run. Match it with errors.Is.
var ErrNoSystemd = errors.New("systemd does not run here: use the cgroupfs driver, in the runtime as well")

// systemdUnits makes slices through systemd's D-Bus interface.
type systemdUnits struct {
	layout *layout
	weight WeightFunc
}

func newSystemd(l *layout, weight WeightFunc) (*systemdUnits, error) {
	if !systemd.IsRunningSystemd() {
		return nil, ErrNoSystemd
	}
	if weight == nil {
		weight = LinearWeight
	}
	return &systemdUnits{layout: l, weight: weight}, nil
}

// manager returns the library's manager of one slice.
func (u *systemdUnits) manager(n Name, r Resources) (cgroups.Manager, error) {
	c := unitConfig(n, r, u.layout.v2, u.weight)
	if u.layout.v2 {
		return systemd.NewUnifiedManager(c, u.layout.dirs[0]+n.Systemd())
	}
	return systemd.NewLegacyManager(c, nil)
}

// set makes the slice, or changes it. The library has a time limit of its own
// for each call to systemd, 30 s.
func (u *systemdUnits) set(n Name, r Resources) error {
	m, err := u.manager(n, r)
	if err != nil {
		return fmt.Errorf("systemd slice %s: %w", n.Slice(), err)
	}
	if err := m.Apply(-1); err != nil {
		return fmt.Errorf("start systemd slice %s: %w", n.Slice(), err)
	}
	if err := m.Set(unitConfig(n, r, u.layout.v2, u.weight).Resources); err != nil {
		return fmt.Errorf("set the properties of systemd slice %s: %w", n.Slice(), err)
	}
	return nil
}

func (u *systemdUnits) remove(n Name) error {
	m, err := u.manager(n, Resources{})
	if err != nil {
		return fmt.Errorf("systemd slice %s: %w", n.Slice(), err)
	}
	if err := m.Destroy(); err != nil {
		return fmt.Errorf("stop systemd slice %s: %w", n.Slice(), err)
	}
	return nil
}

func (u *systemdUnits) adjust(r Resources) Resources { return systemdRounded(r) }

// systemdRounded returns the values as systemd will have them: it keeps a quota
// in whole percents of a CPU, rounded up.
func systemdRounded(r Resources) Resources {
	if r.CPUQuota <= 0 || r.CPUPeriod == 0 {
		return r
	}
	const percent = 10_000 // µs of a second
	perSecond := r.CPUQuota * 1_000_000 / int64(r.CPUPeriod)
	perSecond = (perSecond + percent - 1) / percent * percent
	r.CPUQuota = perSecond * int64(r.CPUPeriod) / 1_000_000
	return r
}

// unitConfig turns a name and values into what the library wants. A limit that
// is not there is said to be -1, never left at 0: the library takes 0 for "leave
// it alone", and a limit that was taken away would stay.
func unitConfig(n Name, r Resources, v2 bool, weight WeightFunc) *cgroups.Cgroup {
	parent := Name{parts: n.parts[:max(len(n.parts)-1, 0)]}
	out := &cgroups.Resources{
		CpuQuota:        r.CPUQuota,
		CpuPeriod:       r.CPUPeriod,
		Memory:          r.Memory,
		SkipDevices:     true,
		SkipFreezeOnSet: true,
	}
	if r.Pids != 0 {
		out.PidsLimit = &r.Pids
	}
	if v2 && r.CPUShares != 0 {
		out.CpuWeight = weight(r.CPUShares)
	} else {
		out.CpuShares = r.CPUShares
	}
	for _, l := range r.Hugepages {
		out.HugetlbLimit = append(out.HugetlbLimit, &cgroups.HugepageLimit{Pagesize: l.Size, Limit: l.Bytes})
	}
	return &cgroups.Cgroup{Name: n.Slice(), Parent: parent.Slice(), Resources: out, Systemd: true}
}
