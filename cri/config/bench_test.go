package config_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/config"
)

func benchPod() *corev1.Pod {
	return newPod(func(p *corev1.Pod) {
		c := app(p)
		c.Args = []string{"--name=$(V3)", "plain"}
		for i := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("V", i), Value: "value"})
		}
		c.Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "64Mi"), Limits: quantities("memory", "128Mi")}
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	})
}

func BenchmarkSandbox(b *testing.B) {
	pod, node := benchPod(), &config.Node{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Sandbox(config.SandboxInput{Pod: pod, Node: node}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContainer(b *testing.B) {
	pod, node := benchPod(), &config.Node{}
	env, err := config.Env(b.Context(), config.EnvInput{Pod: pod, Container: app(pod)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Container(config.ContainerInput{Pod: pod, Container: app(pod), Node: node, Env: env}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnv(b *testing.B) {
	pod := benchPod()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Env(b.Context(), config.EnvInput{Pod: pod, Container: app(pod)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	c := app(benchPod())
	b.ReportAllocs()
	for b.Loop() {
		config.Hash(c)
	}
}
