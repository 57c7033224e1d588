package podsync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what a stage wants to happen next. The kinds rise in severity: in
// a parallel group the highest kind of its members is the group's.
type Kind uint8

// The kinds of outcome. Each is made by the function of its name.
const (
	// KindContinue: the stage did its work; go on. The zero value.
	KindContinue Kind = iota
	// KindSkip: there was nothing to do for this pod; go on.
	KindSkip
	// KindWait: a precondition is missing. Not an error: backoff is untouched.
	KindWait
	// KindRetry: the stage failed; the phase runs again after the pod's backoff.
	KindRetry
	// KindCanceled: the context ended. Whoever ended it has queued the next run.
	KindCanceled
	// KindDone: this phase is over; the next phase begins at once.
	KindDone
	// KindReject: the node refuses the pod; nothing is to be started for it.
	KindReject
	// KindFail: the pod is given up and terminated.
	KindFail
)

var kindNames = [...]string{"Continue", "Skip", "Wait", "Retry", "Canceled", "Done", "Reject", "Fail"}

// String returns the kind's name, as in "Wait".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Outcome is the one value a stage returns. Its zero value means "go on". It
// can only be made by the functions below, so that no senseless mix (a
// rejection with a retry time, say) can be written. Outcomes are not
// comparable with ==; compare Kind and Reason.
type Outcome struct {
	_      [0]func()
	kind   Kind
	reason string
	err    error
	msg    string
	stage  string
	after  time.Duration
	again  bool
	wake   []Topic
}

// Continue says that the stage did its work and the next one may run.
func Continue() Outcome { return Outcome{} }

// Skip says that there was nothing to do for this pod. The reason is an
// UpperCamelCase word such as "HostNetwork".
func Skip(reason string) Outcome { return Outcome{kind: KindSkip, reason: reason} }

// Wait says that a precondition is missing: the phase runs again after d, or as
// soon as one of the topics given to WakeOn is published. A d of zero or less
// waits for the topics alone (and the pod's resync). It is not an error and
// leaves the backoff alone. The reason is an UpperCamelCase API reason that
// stays the same while the cause does; the message is for people.
func Wait(d time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{kind: KindWait, reason: reason, msg: sprintf(format, args), after: max(d, 0)}
}

// Retry says that the stage failed and the phase is to run again after the
// pod's backoff; an error that has a RetryAfter() time.Duration method sets the
// time itself. Retry(nil) is Continue.
func Retry(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	o := Outcome{kind: KindRetry, reason: ReasonOf(err), err: err}
	var ra interface{ RetryAfter() time.Duration }
	if errors.As(err, &ra) {
		o.after, o.again = ra.RetryAfter(), true
	}
	return o
}

// canceled is what a stage's run becomes when its context ended.
func canceled(err error) Outcome { return Outcome{kind: KindCanceled, err: err} }

// Done says that this phase is over for the pod (it completed, its deadline
// passed) and the next phase begins at once.
func Done(reason string) Outcome { return Outcome{kind: KindDone, reason: reason} }

// Reject says that the node refuses the pod. In the admit phase nothing has
// been started and nothing will be; in the sync phase the pod is terminated.
// Its status becomes Failed with this reason and message.
func Reject(reason, format string, args ...any) Outcome {
	return Outcome{kind: KindReject, reason: reason, msg: sprintf(format, args)}
}

// Fail gives the pod up: it is terminated and its status becomes Failed with
// this reason. A nil err is allowed; the reason then stands alone.
func Fail(reason string, err error) Outcome {
	return Outcome{kind: KindFail, reason: reason, err: err}
}

func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// WakeOn adds topics to a Wait: the phase also runs again as soon as one of
// them is published. On any other kind it does nothing.
func (o Outcome) WakeOn(topics ...Topic) Outcome {
	if o.kind == KindWait {
		o.wake = append(o.wake[:len(o.wake):len(o.wake)], topics...)
	}
	return o
}

// Again adds to a Continue or Skip that the pod should be looked at again
// within d, at once when d is zero. On any other kind it does nothing.
func (o Outcome) Again(d time.Duration) Outcome {
	if o.kind <= KindSkip {
		d = max(d, 0)
		if !o.again || d < o.after {
			o.after, o.again = d, true
		}
	}
	return o
}

// Kind returns what is to happen.
func (o Outcome) Kind() Kind { return o.kind }

// Reason returns the UpperCamelCase reason, "" for a plain Continue.
func (o Outcome) Reason() string { return o.reason }

// Message returns the text for people: the message given, or the error's.
func (o Outcome) Message() string {
	if o.msg == "" && o.err != nil {
		return o.err.Error()
	}
	return o.msg
}

// Stage returns the name of the stage that the outcome came from, "" while it
// has not passed through a pipeline.
func (o Outcome) Stage() string { return o.stage }

// Wake returns the topics that end a Wait early. The caller must not change it.
func (o Outcome) Wake() []Topic { return o.wake }

// Stops tells whether the pipeline stops at this outcome: all kinds but
// Continue and Skip do.
func (o Outcome) Stops() bool { return o.kind > KindSkip }

// RetryAfter returns the time after which the stage asks to be run again: that
// of Wait and Again, or the error's own of Retry. ok is false where the agent's
// own timing (resync, backoff, topics) decides.
func (o Outcome) RetryAfter() (d time.Duration, ok bool) {
	if o.kind == KindWait {
		return o.after, o.after > 0
	}
	return o.after, o.again
}

// Err returns nil for Continue, Skip and Done, else an *OutcomeError.
func (o Outcome) Err() error {
	switch o.kind {
	case KindContinue, KindSkip, KindDone:
		return nil
	default:
		return &OutcomeError{Outcome: o}
	}
}

// String renders the outcome as in `Wait(NetworkNotReady): cni plugin not initialized`.
func (o Outcome) String() string {
	var b strings.Builder
	b.WriteString(o.kind.String())
	if o.reason != "" {
		b.WriteString("(" + o.reason + ")")
	}
	if m := o.Message(); m != "" {
		b.WriteString(": " + m)
	}
	return b.String()
}

// OutcomeError carries an Outcome as an error, so that a function deep inside a
// stage can return plain errors and the stage end with FromErr.
type OutcomeError struct{ Outcome Outcome }

// Error returns the outcome as text.
func (e *OutcomeError) Error() string { return e.Outcome.String() }

// Unwrap returns the error that a Retry, Fail or canceled outcome was made of.
func (e *OutcomeError) Unwrap() error { return e.Outcome.err }

// FromErr turns an error into the outcome it stands for: nil is Continue, an
// *OutcomeError anywhere in the chain is its outcome, the end of a context is
// canceled, anything else is Retry.
func FromErr(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	var oe *OutcomeError
	switch {
	case errors.As(err, &oe):
		return oe.Outcome
	case errors.Is(err, context.Canceled):
		return canceled(err)
	default:
		return Retry(err)
	}
}

// ReasonOf returns the UpperCamelCase reason that an error in the chain carries
// through a Reason() string method, "" if none does.
func ReasonOf(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return ""
}

// WithReason wraps err so that ReasonOf finds reason, an UpperCamelCase API
// reason, and with it the events and conditions made of the error. A nil err
// stays nil.
func WithReason(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &reasonError{reason: reason, err: err}
}

type reasonError struct {
	reason string
	err    error
}

func (e *reasonError) Error() string  { return e.err.Error() }
func (e *reasonError) Unwrap() error  { return e.err }
func (e *reasonError) Reason() string { return e.reason }
