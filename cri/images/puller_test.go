package images_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/podsync"
)

func TestEnsurePolicies(t *testing.T) {
	const img = "registry.local/app:1"
	for _, tt := range []struct {
		name    string
		policy  corev1.PullPolicy
		present bool
		status  error
		pulls   int
		reason  string
		events  []string
	}{
		{name: "IfNotPresent, present", policy: corev1.PullIfNotPresent, present: true, events: []string{`Normal Pulled Container image "registry.local/app:1" already present on machine`}},
		{name: "IfNotPresent, absent", policy: corev1.PullIfNotPresent, pulls: 1, events: []string{
			`Normal Pulling Pulling image "registry.local/app:1"`,
			`Normal Pulled Successfully pulled image "registry.local/app:1" in 0s (0s including waiting). Image size: 42 bytes.`,
		}},
		{name: "by the tag", present: true, events: []string{`Normal Pulled Container image "registry.local/app:1" already present on machine`}},
		{name: "Always, present", policy: corev1.PullAlways, present: true, pulls: 1, events: []string{
			`Normal Pulling Pulling image "registry.local/app:1"`,
			`Normal Pulled Successfully pulled image "registry.local/app:1" in 0s (0s including waiting). Image size: 42 bytes.`,
		}},
		{name: "Never, present", policy: corev1.PullNever, present: true, events: []string{`Normal Pulled Container image "registry.local/app:1" already present on machine`}},
		{name: "Never, absent", policy: corev1.PullNever, reason: "ErrImageNeverPull", events: []string{`Warning ErrImageNeverPull Container image "registry.local/app:1" is not present with pull policy of Never`}},
		{name: "inspect fails", policy: corev1.PullIfNotPresent, status: status.Error(codes.Internal, "disk on fire"), reason: "ImageInspectError",
			events: []string{`Warning InspectFailed Failed to inspect image "registry.local/app:1": disk on fire`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{present: map[string]bool{img: tt.present}, status: func(string) error { return tt.status }}
				var ev events
				r := request("u1", img)
				r.Policy, r.Events = tt.policy, ev.add
				got, err := images.New(images.Options{Service: s}).Ensure(t.Context(), r)
				if podsync.ReasonOf(err) != tt.reason || len(s.pulls) != tt.pulls {
					t.Errorf("%v, pulls %v", err, s.pulls)
				}
				if err == nil && got.Ref != "sha256:"+img {
					t.Errorf("got %+v", got)
				}
				if d := cmp.Diff(tt.events, ev.take()); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestImageUser(t *testing.T) {
	for _, tt := range []struct {
		uid  *runtimeapi.Int64Value
		user string
		want string
	}{
		{nil, "", "0 "}, {&runtimeapi.Int64Value{}, "", "0 "}, {&runtimeapi.Int64Value{Value: 7}, "x", "7 "}, {nil, "www", "- www"},
	} {
		for _, present := range []bool{true, false} {
			s := &service{uid: tt.uid, user: tt.user, present: map[string]bool{"a:1": present}}
			got, err := images.New(images.Options{Service: s}).Ensure(t.Context(), request("u", "a:1"))
			if err != nil {
				t.Fatal(err)
			}
			uid := "-"
			if c := config.Image(got); c.UID != nil { // it converts
				uid = fmt.Sprint(*c.UID)
			}
			if uid+" "+got.Username != tt.want {
				t.Errorf("%v %q: %s %s", tt.uid, tt.user, uid, got.Username)
			}
		}
	}
}

func TestCase_IMG_03_CredentialsAreTriedInOrder(t *testing.T) {
	node, err := images.ParseConfig([]byte(logins("registry.local", "node")))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []*corev1.Secret{
		configJSON("a", logins("registry.local", "host1", "registry.local/team/app", "app", "registry.local/team", "team")),
		configJSON("b", logins("registry.local", "host2")),
	}
	for _, tt := range []struct {
		works string
		want  string
	}{
		{"app", "app"}, {"host1", "app team host1"}, {"node", "app team host1 host2 node"}, {"nobody", "app team host1 host2 node"},
	} {
		s := &service{pull: func(_ context.Context, _ string, a *runtimeapi.AuthConfig) error {
			if a.GetUsername() == tt.works {
				return nil
			}
			return status.Errorf(codes.Unknown, "no entry for %s with password %s", a.GetUsername(), a.GetPassword())
		}}
		r := request("u1", "registry.local/team/app:1")
		r.Secrets = secrets
		var ev events
		r.Events = ev.add
		_, err := images.New(images.Options{Service: s, Node: node}).Ensure(t.Context(), r)
		var tried []string
		for _, p := range s.pulls {
			tried = append(tried, strings.Fields(p)[1])
		}
		if strings.Join(tried, " ") != tt.want || (err == nil) != (tt.works != "nobody") {
			t.Errorf("tried %v, %v", tried, err)
		}
		if err == nil {
			continue
		}
		for _, user := range []string{"app", "team", "host1", "host2", "node"} {
			if !strings.Contains(err.Error(), "no entry for "+user+" with password ***") {
				t.Errorf("%s is missing in %v", user, err)
			}
		}
		if all := fmt.Sprintf("%+v %#v %v", err, err, ev.take()); strings.Contains(all, "geheim") {
			t.Errorf("a password shows: %s", all)
		}
	}
}

func TestAnonymousOnlyWithoutCredentials(t *testing.T) {
	s := &service{pull: func(_ context.Context, _ string, a *runtimeapi.AuthConfig) error {
		if a != nil {
			t.Errorf("got a login %v", a.GetUsername())
		}
		return errors.New("denied")
	}}
	r := request("u1", "registry.local/app:1")
	r.Secrets = []*corev1.Secret{configJSON("s", logins("other.local", "u"))}
	if _, err := images.New(images.Options{Service: s}).Ensure(t.Context(), r); err == nil || len(s.pulls) != 1 {
		t.Errorf("%v, pulls %v", err, s.pulls)
	}
}

func TestCase_IMG_05_AMalformedSecretMakesItWait(t *testing.T) {
	s := &service{}
	r := request("u1", "registry.local/app:1")
	r.Secrets = []*corev1.Secret{configJSON("good", logins("registry.local", "u")), configJSON("bad", `{"auths":{"x":{"auth":"c2VzYW0="}}}`)}
	p := images.New(images.Options{Service: s})
	_, err := p.Ensure(t.Context(), r)
	var se *images.SecretError
	if podsync.ReasonOf(err) != "ErrImagePull" || !errors.As(err, &se) || se.Name != "bad" || len(s.pulls) > 0 {
		t.Fatalf("%v, pulls %v", err, s.pulls)
	}
	// It was no pull, so that nothing waits once the secret is mended.
	r.Secrets = r.Secrets[:1]
	if _, err := p.Ensure(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		s := &service{pull: func(context.Context, string, *runtimeapi.AuthConfig) error {
			if fail {
				return status.Error(codes.NotFound, "no such manifest")
			}
			return nil
		}}
		p := images.New(images.Options{Service: s})
		var ev events
		r := request("u1", "app:1")
		r.Events = ev.add
		for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			want *= time.Second
			_, err := p.Ensure(t.Context(), r)
			var e *images.Error
			if !errors.As(err, &e) || e.Reason() != "ErrImagePull" || e.RetryAfter() != want || !e.Pulled() || e.Image != "app:1" {
				t.Fatalf("try %d: %v, again after %v", i, err, e.RetryAfter())
			}
			if out := podsync.Retry(err); out.Reason() != "ErrImagePull" {
				t.Error(out)
			}
			time.Sleep(want - time.Second)
			ev.take()
			if _, err = p.Ensure(t.Context(), r); !errors.As(err, &e) || e.Reason() != "ImagePullBackOff" || e.RetryAfter() != time.Second || e.Pulled() {
				t.Fatalf("try %d in backoff: %v", i, err)
			}
			if !strings.Contains(err.Error(), "ErrImagePull") || !strings.Contains(err.Error(), "no such manifest") {
				t.Errorf("the earlier error is missing: %v", err)
			}
			if d := cmp.Diff([]string{`Normal BackOff Back-off pulling image "app:1"`}, ev.take()); d != "" {
				t.Error(d)
			}
			if len(s.pulls) != i+1 {
				t.Fatalf("%d pulls after try %d", len(s.pulls), i)
			}
			time.Sleep(time.Second)
		}
		// Another pod, and another image of this one, do not wait.
		for _, other := range []images.Request{request("u2", "app:1"), request("u1", "app:2")} {
			if _, err := p.Ensure(t.Context(), other); podsync.ReasonOf(err) != "ErrImagePull" {
				t.Error(err)
			}
		}
		fail = false
		r.Policy = corev1.PullAlways
		if _, err := p.Ensure(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		// Success starts over.
		fail = true
		var e *images.Error
		if _, err := p.Ensure(t.Context(), r); !errors.As(err, &e) || e.RetryAfter() != 10*time.Second {
			t.Error(err)
		}
	})
}

func TestCase_IMG_06_ASecretThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(_ context.Context, _ string, a *runtimeapi.AuthConfig) error {
			if a.GetUsername() != "u" {
				return status.Error(codes.Unknown, "401 Unauthorized")
			}
			return nil
		}}
		p := images.New(images.Options{Service: s})
		r := request("u1", "registry.local/app:1")
		start := time.Now()
		for {
			if time.Since(start) >= 10*time.Minute {
				r.Secrets = []*corev1.Secret{configJSON("s1", logins("registry.local", "u"))}
			}
			_, err := p.Ensure(t.Context(), r)
			if err == nil {
				break
			}
			var e *images.Error
			if !errors.As(err, &e) || e.RetryAfter() <= 0 {
				t.Fatal(err)
			}
			time.Sleep(e.RetryAfter())
		}
		if took := time.Since(start); took > 15*time.Minute {
			t.Errorf("used after %v", took)
		}
		// Reset does not even wait that long.
		r2 := request("u2", "registry.local/app:2")
		if _, err := p.Ensure(t.Context(), r2); err == nil {
			t.Fatal("no secret and no error")
		}
		p.Reset("u2", "registry.local/app:2")
		r2.Secrets = r.Secrets
		if _, err := p.Ensure(t.Context(), r2); err != nil {
			t.Error(err)
		}
	})
}

func TestReasonOfPullErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		reason string
		text   string
	}{
		{status.Error(codes.Unknown, "RegistryUnavailable: connection refused"), "RegistryUnavailable", `pull image "a:1": connection refused`},
		{fmt.Errorf("pulling: %w", crierrors.ErrRegistryUnavailable), "RegistryUnavailable", ""},
		{status.Error(codes.Unknown, "SignatureValidationFailed: untrusted"), "SignatureValidationFailed", `pull image "a:1": untrusted`},
		{status.Error(codes.Unknown, "SignatureValidationFailed"), "SignatureValidationFailed", `pull image "a:1": Unknown`},
		{status.Error(codes.Unknown, "RegistryUnavailableNow: x"), "ErrImagePull", ""},
		{status.Error(codes.Unknown, "failed: RegistryUnavailable"), "ErrImagePull", ""},
		{errors.New("plain"), "ErrImagePull", `pull image "a:1": plain`},
	} {
		s := &service{pull: func(context.Context, string, *runtimeapi.AuthConfig) error { return tt.err }}
		_, err := images.New(images.Options{Service: s}).Ensure(t.Context(), request("u", "a:1"))
		if podsync.ReasonOf(err) != tt.reason || (tt.text != "" && err.Error() != tt.text) {
			t.Errorf("%v: reason %s, %v", tt.err, podsync.ReasonOf(err), err)
		}
		if st, ok := status.FromError(errors.Unwrap(errors.Unwrap(err))); !ok || st.Code() != status.Code(tt.err) {
			t.Errorf("%v: code %v", tt.err, st.Code())
		}
	}
}

func TestPodsShareAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(ctx context.Context, _ string, _ *runtimeapi.AuthConfig) error {
			select {
			case <-time.After(time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		p := images.New(images.Options{Service: s})
		secret := []*corev1.Secret{configJSON("s", logins("docker.io", "u"))}
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				r := request(fmt.Sprint("u", i), "app:1")
				if i == 4 {
					r.Secrets = secret // another login is another pull
				}
				if _, err := p.Ensure(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		// Who began the pull may leave; it goes on for the others.
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := p.Ensure(ctx, request("u9", "app:1")); !errors.Is(err, context.Canceled) || podsync.FromErr(err).Kind() != podsync.KindCanceled {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if got := s.pulled(); len(got) != 2 {
			t.Errorf("pulls %v", got)
		}
	})
}

func TestTheLastToLeaveEndsThePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		s := &service{pull: func(ctx context.Context, _ string, _ *runtimeapi.AuthConfig) error {
			<-ctx.Done()
			ended++
			return status.FromContextError(ctx.Err()).Err()
		}}
		p := images.New(images.Options{Service: s})
		var ev events
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		r := request("u1", "app:1")
		r.Events = ev.add
		if _, err := p.Ensure(ctx, r); !errors.Is(err, context.Canceled) || ended != 1 {
			t.Errorf("%v, ended %d", err, ended)
		}
		// That was no failure.
		if d := cmp.Diff([]string{`Normal Pulling Pulling image "app:1"`}, ev.take()); d != "" || len(p.State()) > 0 {
			t.Error(d, p.State())
		}
	})
}

func TestParallelPullsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(context.Context, string, *runtimeapi.AuthConfig) error {
			time.Sleep(time.Second)
			return nil
		}}
		p := images.New(images.Options{Service: s, MaxParallel: 3})
		start := time.Now()
		var wg sync.WaitGroup
		var ev events
		for i := range 9 {
			wg.Go(func() {
				r := request("u1", fmt.Sprintf("app:%d", i))
				r.Events = ev.add
				if _, err := p.Ensure(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.most != 3 || time.Since(start) != 3*time.Second {
			t.Errorf("%d at a time, %v in all", s.most, time.Since(start))
		}
		if all := strings.Join(ev.take(), "\n"); !strings.Contains(all, "in 1s (3s including waiting)") {
			t.Error(all)
		}
	})
}

func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(_ context.Context, image string, _ *runtimeapi.AuthConfig) error {
			time.Sleep(time.Minute)
			if image == "bad:1" {
				return errors.New("gone")
			}
			return nil
		}}
		bus := podsync.NewBus()
		var published []types.UID
		var mu sync.Mutex
		defer bus.Subscribe(func(topic podsync.Topic, uids []types.UID) {
			mu.Lock()
			defer mu.Unlock()
			if topic == podsync.TopicImagePulled {
				published = append(published, uids...)
			}
		})()
		p := images.New(images.Options{Service: s, Bus: bus})
		one, two, bad := request("u1", "app:latest"), request("u1", "app:latest"), request("u1", "bad:1")
		two.Container, bad.Container = "two", "bad"
		f := p.Prefetch(t.Context(), []images.Request{one, one, two, bad})
		defer f.Close()
		time.Sleep(59 * time.Second) // the sandbox
		start := time.Now()
		for _, r := range []images.Request{one, two} {
			if img, err := f.Ensure(t.Context(), r); err != nil || img.Ref == "" {
				t.Error(img, err)
			}
		}
		if _, err := f.Ensure(t.Context(), bad); podsync.ReasonOf(err) != "ErrImagePull" {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second || len(s.pulled()) != 2 {
			t.Errorf("%v more, pulls %v", took, s.pulled())
		}
		// The result is handed out once: a restart under policy Always pulls again.
		if _, err := f.Ensure(t.Context(), one); err != nil || len(s.pulled()) != 3 {
			t.Error(err, s.pulled())
		}
		if len(published) != 4 {
			t.Errorf("published %v", published)
		}
	})
}

func TestPrefetchIsCutShortByClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(ctx context.Context, _ string, _ *runtimeapi.AuthConfig) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Hour):
				return nil
			}
		}}
		p := images.New(images.Options{Service: s})
		f := p.Prefetch(t.Context(), []images.Request{request("u1", "app:1")})
		synctest.Wait()
		f.Close()
		f.Close()
		(*images.Prefetch)(nil).Close()
		// Who still asks gets a pull of their own.
		if _, err := f.Ensure(t.Context(), request("u1", "app:1")); err != nil || len(s.pulled()) != 2 {
			t.Error(err, s.pulled())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g := p.Prefetch(t.Context(), []images.Request{request("u2", "app:2")})
		if _, err := g.Ensure(ctx, request("u2", "app:2")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		g.Close()
	})
}

// Of two containers that waited for one failed pull only the first makes the
// backoff longer.
func TestOneFailureOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(context.Context, string, *runtimeapi.AuthConfig) error {
			time.Sleep(time.Second)
			return errors.New("gone")
		}}
		p := images.New(images.Options{Service: s})
		a, b := request("u1", "app:1"), request("u1", "app:1")
		b.Container = "two"
		f := p.Prefetch(t.Context(), []images.Request{a, b})
		defer f.Close()
		for _, r := range []images.Request{a, b} {
			if _, err := f.Ensure(t.Context(), r); podsync.ReasonOf(err) != "ErrImagePull" {
				t.Error(err)
			}
		}
		if st := p.State(); len(st) != 1 || st[0].Delay != 10*time.Second || len(s.pulled()) != 1 {
			t.Errorf("%+v, pulls %v", st, s.pulled())
		}
	})
}

func TestBackoffSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pull: func(context.Context, string, *runtimeapi.AuthConfig) error { return errors.New("gone") }}
		p := images.New(images.Options{Service: s})
		for _, r := range []images.Request{request("u2", "b:1"), request("u1", "b:1"), request("u1", "a:1")} {
			if _, err := p.Ensure(t.Context(), r); err == nil {
				t.Fatal("no error")
			}
		}
		st := p.State()
		now := time.Now()
		if len(st) != 3 || st[0].Image != "a:1" || st[2].UID != "u2" || st[0].Until != now.Add(10*time.Second) || st[0].Reason != "ErrImagePull" || st[0].Message != "gone" {
			t.Fatalf("%+v", st)
		}
		p.Forget("u1")
		if got := p.State(); len(got) != 1 || got[0].UID != "u2" {
			t.Errorf("after Forget: %+v", got)
		}
		st = append(st,
			images.BackoffState{UID: "old", Image: "a:1", Delay: time.Minute, Until: now.Add(-11 * time.Minute)},
			images.BackoffState{UID: "future", Image: "a:1", Delay: time.Hour, Until: now.Add(time.Hour)},
			images.BackoffState{UID: "zero", Image: "a:1", Until: now},
		)
		q := images.New(images.Options{Service: s})
		q.Restore(st)
		_, err := q.Ensure(t.Context(), request("u1", "a:1"))
		var e *images.Error
		if !errors.As(err, &e) || e.Reason() != "ImagePullBackOff" || !strings.Contains(err.Error(), "ErrImagePull: gone") {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		if _, err = q.Ensure(t.Context(), request("u1", "a:1")); !errors.As(err, &e) || e.RetryAfter() != 20*time.Second {
			t.Error(err)
		}
		if _, err = q.Ensure(t.Context(), request("future", "a:1")); !errors.As(err, &e) || e.RetryAfter() != 290*time.Second {
			t.Error(err, e.RetryAfter())
		}
		for _, b := range q.State() {
			if b.UID == "old" || b.Delay < 10*time.Second || b.Delay > 300*time.Second {
				t.Errorf("%+v", b)
			}
		}
		time.Sleep(time.Hour)
		if got := q.State(); len(got) != 0 {
			t.Errorf("kept %+v", got)
		}
	})
}
