// Package podsync is the core of the SDK: the steps that bring a pod to its
// desired state as stages, the pipelines made of them, and the agent that drives
// pods through the pipelines.
//
// A [Stage] does one step for one pod and returns one [Outcome], whose zero value
// means "go on". A [Builder] puts stages in order and tells every mistake at
// build; the [Pipeline] it makes is immutable. What one stage leaves for another
// travels in the [Sync], under typed keys.
//
//	license := podsync.NewStage("example.com/license", func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
//		if !licensed(s.Pod().Namespace) {
//			return podsync.Reject("LicenseMissing", "namespace %s has no license", s.Pod().Namespace)
//		}
//		return podsync.Continue()
//	})
//	plan.Admit.Before(podsync.StageResources, license)
//
// There is a pipeline for each phase of a pod's life, a [Plan] of four: admit,
// sync, terminating, terminated. An [Agent] takes pods from its [Source]s and
// runs each through the pipeline of its phase, whenever something happened that
// concerns it. [Agent.Explain] says where a pod is and what it waits for.
//
// This package knows no container runtime, no cgroups and no volumes: they are
// backends of stages, in packages of their own. Package podsync/node puts the
// standard ones together.
package podsync
