package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// printPods prints pods as `kubectl get pods -o wide` does, then conditions and containers of each.
func printPods(out io.Writer, pods []corev1.Pod, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tREADY\tSTATUS\tRESTARTS\tAGE\tIP\tNODE")
	for _, p := range pods {
		readyCount, total, restarts := counts(p)
		fmt.Fprintf(w, "%s\t%d/%d\t%s\t%d\t%s\t%s\t%s\n", p.Name, readyCount, total, summary(p), restarts,
			age(p.Status.StartTime, now), orNone(p.Status.PodIP), orNone(p.Spec.NodeName))
	}
	for _, p := range pods {
		fmt.Fprintf(w, "\nConditions of %s:\n", p.Name)
		fmt.Fprintln(w, "TYPE\tSTATUS\tREASON\tSINCE")
		for _, c := range p.Status.Conditions {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Type, c.Status, orNone(c.Reason), age(&c.LastTransitionTime, now))
		}
		fmt.Fprintf(w, "\nContainers of %s:\n", p.Name)
		fmt.Fprintln(w, "NAME\tKIND\tSTATE\tREADY\tRESTARTS\tIMAGE")
		sidecars := sidecarNames(p)
		for _, s := range p.Status.InitContainerStatuses {
			kind := "init"
			if sidecars[s.Name] {
				kind = "sidecar"
			}
			printContainer(w, kind, s)
		}
		for _, s := range p.Status.ContainerStatuses {
			printContainer(w, "app", s)
		}
	}
	return w.Flush()
}

func printContainer(w io.Writer, kind string, s corev1.ContainerStatus) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%d\t%s\n", s.Name, kind, state(s.State), s.Ready, s.RestartCount, s.Image)
}

// state is a container's state in a word or two.
func state(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "Running"
	case s.Terminated != nil && s.Terminated.ExitCode != 0:
		return fmt.Sprintf("%s (exit code %d)", orDefault(s.Terminated.Reason, "Terminated"), s.Terminated.ExitCode)
	case s.Terminated != nil:
		return orDefault(s.Terminated.Reason, "Terminated")
	case s.Waiting != nil:
		return orDefault(s.Waiting.Reason, "Waiting")
	default:
		return "Waiting"
	}
}

// counts are the columns READY and RESTARTS: sidecars count, other init containers do not.
func counts(p corev1.Pod) (readyCount, total int, restarts int32) {
	sidecars := sidecarNames(p)
	total = len(p.Spec.Containers) + len(sidecars)
	for _, s := range p.Status.InitContainerStatuses {
		if !sidecars[s.Name] {
			continue
		}
		if s.Ready {
			readyCount++
		}
		restarts += s.RestartCount
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Ready {
			readyCount++
		}
		restarts += s.RestartCount
	}
	return readyCount, total, restarts
}

// summary is the column STATUS: the phase, or what keeps a container from running.
func summary(p corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	if p.Status.Reason != "" {
		return p.Status.Reason
	}
	sidecars, done := sidecarNames(p), 0
	for _, s := range p.Status.InitContainerStatuses {
		switch {
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0, sidecars[s.Name] && s.Started != nil && *s.Started:
			done++
			continue
		case s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "PodInitializing":
			return "Init:" + s.State.Waiting.Reason
		}
		return fmt.Sprintf("Init:%d/%d", done, len(p.Spec.InitContainers))
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			return s.State.Waiting.Reason
		}
	}
	return orDefault(string(p.Status.Phase), "Unknown")
}

// sidecarNames are the init containers that keep running.
func sidecarNames(p corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			names[c.Name] = true
		}
	}
	return names
}

func age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func orNone(s string) string { return orDefault(s, "<none>") }

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
