// Package mockstages shows how a site tests its own stages: the standard ones
// are replaced by scripted ones, and a recorder says what ran.
package mockstages

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// usbGate is the stage under test: pods that want the modem wait for it.
func usbGate(present func() bool) podsync.Stage {
	return podsync.NewStage("example.com/usb", func(_ context.Context, s *podsync.Sync) podsync.Outcome {
		switch {
		case s.Pod().Labels["example.com/modem"] == "":
			return podsync.Skip("NoModem")
		case !present():
			return podsync.Wait(time.Minute, "ModemMissing", "no modem is plugged in").WakeOn("example.com/Plugged")
		}
		return podsync.Continue()
	})
}

func TestUSBGate(t *testing.T) {
	present := false
	var rec podsynctest.Recorder
	p, err := podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script(podsync.StageVolumes)).
		Append(podsynctest.Script(podsync.StageRuntime)).
		Before(podsync.StageRuntime, usbGate(func() bool { return present })).
		Replace(podsync.StageVolumes, podsynctest.Script("no-volumes", podsync.Skip("Mocked"))).
		Observe(rec.Observe).
		Build()
	if err != nil {
		t.Fatal(err)
	}
	pod := podsynctest.Pod()
	pod.Labels = map[string]string{"example.com/modem": "yes"}
	for _, tc := range []struct {
		present bool
		want    string
	}{
		{false, "volumes=Skip(Mocked) example.com/usb=Wait(ModemMissing)"},
		{true, "volumes=Skip(Mocked) example.com/usb=Continue runtime=Continue"},
	} {
		rec.Reset()
		present = tc.present
		p.Run(t.Context(), podsync.NewSync(pod))
		if rec.String() != tc.want {
			t.Errorf("modem present: %v\n got %s\nwant %s", tc.present, &rec, tc.want)
		}
	}
}

// A whole node on the in-memory runtime, with one stage mocked. In a bubble of
// testing/synctest its wait costs no time.
func TestNodeWithAMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := podsynctest.Script("disk",
			podsync.Wait(10*time.Second, "DiskAsleep", "the disk is spinning up"), podsync.Continue())
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Plan: func(p *podsync.Plan) {
			p.Sync.Replace(podsync.StageVolumes, disk)
		}})
		n.Apply(podsynctest.Pod())
		n.WaitRunning("web-uid")
		if !strings.Contains(n.Recorder.String(), "volumes=Wait(DiskAsleep)") {
			t.Errorf("the pod did not wait for its disk: %s", n.Recorder)
		}
	})
}

// Every stage, a site's too, can be held to the contract of stages.
func TestUSBGateKeepsTheContract(t *testing.T) {
	podsynctest.Stage(t, podsynctest.StageCase{
		New:  func(*testing.T) podsync.Stage { return usbGate(func() bool { return true }) },
		Want: podsync.KindSkip,
	})
}
