package podsync

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func closed(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// A stage's context is to be told from one of package context by its cost alone,
// whether it was waited on before it ended or not.
func TestStageContextLimit(t *testing.T) {
	for _, waited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			run, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := newStageContext(run, false, time.Now(), time.Minute)
			defer c.cancel(nil)
			if waited && closed(c) {
				t.Error("it is done before its time")
			}
			if at, ok := c.Deadline(); !ok || time.Until(at) != time.Minute {
				t.Errorf("Deadline is %v %v, want in a minute", at, ok)
			}
			if err := c.Err(); err != nil {
				t.Errorf("Err is %v before its time", err)
			}
			child, stop := context.WithCancel(c)
			defer stop()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !errors.Is(c.Err(), context.DeadlineExceeded) || !closed(c) || !errors.Is(context.Cause(c), context.DeadlineExceeded) {
				t.Errorf("after its time: Err is %v, cause %v, done %v", c.Err(), context.Cause(c), closed(c))
			}
			if !errors.Is(child.Err(), context.DeadlineExceeded) {
				t.Errorf("a child's Err is %v", child.Err())
			}
			if c.unlimited().Err() != nil {
				t.Error("the run ended with its stage's time")
			}
			cancel(ErrTerminating)
			if !errors.Is(context.Cause(c.unlimited()), ErrTerminating) || !errors.Is(c.Err(), context.DeadlineExceeded) {
				t.Errorf("after the run's end: cause %v, Err %v", context.Cause(c.unlimited()), c.Err())
			}
		})
	}
}

func TestStageContextFollowsItsRun(t *testing.T) {
	for _, tt := range []struct {
		name             string
		detached, waited bool
		cause            error
		ends             bool
	}{
		{name: "superseded", cause: ErrSuperseded, ends: true},
		{name: "superseded, waited on", waited: true, cause: ErrSuperseded, ends: true},
		{name: "superseded, detached", detached: true, cause: ErrSuperseded},
		{name: "superseded, detached, waited on", detached: true, waited: true, cause: ErrSuperseded},
		{name: "terminating, detached", detached: true, cause: ErrTerminating, ends: true},
		{name: "terminating, detached, waited on", detached: true, waited: true, cause: ErrTerminating, ends: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				run, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
				defer cancel(nil)
				c := newStageContext(run, tt.detached, time.Now(), time.Minute)
				if tt.waited && closed(c) {
					t.Error("it is done before the run is")
				}
				cancel(tt.cause)
				synctest.Wait()
				if ended := c.Err() != nil; ended != tt.ends {
					t.Errorf("Err is %v, want an end: %v", c.Err(), tt.ends)
				}
				if tt.ends && !errors.Is(context.Cause(c), tt.cause) {
					t.Errorf("cause is %v, want %v", context.Cause(c), tt.cause)
				}
				if v := c.Value(key{}); v != "value" {
					t.Errorf("Value is %v", v)
				}
				c.cancel(nil)
				if c.Err() == nil || !closed(c) {
					t.Error("it goes on after its stage")
				}
			})
		})
	}
}

func TestStageContextOver(t *testing.T) {
	c := newStageContext(t.Context(), false, time.Now(), time.Hour)
	c.cancel(nil)
	if !errors.Is(c.Err(), context.Canceled) || !closed(c) {
		t.Errorf("after the stage: Err is %v, done %v", c.Err(), closed(c))
	}
}

func TestRunContext(t *testing.T) {
	for _, waited := range []bool{false, true} {
		agent, stop := context.WithCancelCause(t.Context())
		soft, hard := newRunContext(agent)
		stage := newStageContext(context.WithValue(soft, struct{}{}, 1), true, time.Now(), time.Hour)
		if waited && (closed(soft) || closed(stage)) {
			t.Error("done before its end")
		}
		soft.cancel(ErrSuperseded)
		soft.cancel(ErrTerminating)
		if !errors.Is(context.Cause(soft), ErrSuperseded) || soft.Err() == nil || hard.Err() != nil || stage.Err() != nil {
			t.Errorf("superseded: cause %v, hard %v, detached stage %v", context.Cause(soft), hard.Err(), stage.Err())
		}
		stop(ErrAgentShutdown)
		if !errors.Is(context.Cause(hard), ErrAgentShutdown) || !errors.Is(context.Cause(soft), ErrSuperseded) {
			t.Errorf("shut down: hard %v, soft %v", context.Cause(hard), context.Cause(soft))
		}
		<-stage.Done()
		if !errors.Is(context.Cause(stage), ErrAgentShutdown) {
			t.Errorf("shut down: stage %v", context.Cause(stage))
		}
		stage.cancel(nil)
		hard.cancel(nil)
	}
}
