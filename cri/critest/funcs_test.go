package critest_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/critest"
	"github.com/podsync/sdk/cri/memory"
)

var errMine = errors.New("mine")

// Every function field is called in place of the call of its name.
func TestFuncs_everyFieldReplaces(t *testing.T) {
	f := &critest.Funcs{} // no service: a call that is passed on panics
	v := reflect.ValueOf(f).Elem()
	replaced := 0
	for i := range v.NumField() {
		name, isFunc := strings.CutSuffix(v.Type().Field(i).Name, "Func")
		if !isFunc {
			continue
		}
		field, called := v.Field(i), false
		field.Set(reflect.MakeFunc(field.Type(), func([]reflect.Value) []reflect.Value {
			called = true
			var out []reflect.Value
			for o := range field.Type().NumOut() - 1 {
				out = append(out, reflect.Zero(field.Type().Out(o)))
			}
			return append(out, reflect.ValueOf(&errMine).Elem())
		}))
		method := reflect.ValueOf(f).MethodByName(name)
		if !method.IsValid() || method.Type() != field.Type() {
			t.Errorf("field %sFunc has no method %s of its type", name, name)
			continue
		}
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for a := 1; a < method.Type().NumIn(); a++ {
			args = append(args, reflect.Zero(method.Type().In(a)))
		}
		out := method.Call(args)
		if err, _ := out[len(out)-1].Interface().(error); !called || !errors.Is(err, errMine) {
			t.Errorf("%s does not call %sFunc and return its error", name, name)
		}
		replaced++
	}
	if replaced < 15 {
		t.Errorf("only %d calls can be replaced", replaced)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Errorf("Close without services: %v", err)
	}
}

func ExampleFuncs() {
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	f := critest.Wrap(rt, rt)
	f.RunPodSandboxFunc = func(ctx context.Context, c *runtimeapi.PodSandboxConfig, handler string) (string, error) {
		if c.Metadata.Attempt == 0 {
			return "", errors.New("no addresses left")
		}
		return f.RuntimeService.RunPodSandbox(ctx, c, handler)
	}
	for attempt := range uint32(2) {
		_, err := f.RunPodSandbox(context.Background(), &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1", Attempt: attempt},
		}, "")
		fmt.Println(err)
	}
	// Output:
	// no addresses left
	// <nil>
}

func TestFuncs_passesOn(t *testing.T) {
	rt := memory.New(memory.Options{})
	t.Cleanup(rt.Shutdown)
	f := critest.Wrap(rt, rt)
	if _, err := f.Version(t.Context(), "v1"); err != nil {
		t.Error(err)
	}
	if _, err := f.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "busybox:1"}, nil, nil); err != nil {
		t.Error(err)
	}
	if got := rt.Calls().Lines(); len(got) != 2 || !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "PullImage") }) {
		t.Errorf("calls that reached the runtime: %q", got)
	}
}
