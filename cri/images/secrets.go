package images

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// PullSecrets returns the stage podsync.StagePullSecrets: it reads the pull
// secrets that a pod names and leaves them under podsync.PullSecrets. One that
// is missing or cannot be read is a Warning event and a name under
// podsync.MissingPullSecrets, and the pull is tried without it: the image may be
// public, and the next run asks again. nil objects have none of them.
//
// A pod that names none is skipped with reason NoneNamed and neither key is set.
func PullSecrets(objects podsync.Objects) podsync.Stage { return pullSecrets{objects} }

// ReasonPullSecret is the reason of the event about pull secrets that could not
// be had.
const ReasonPullSecret = "FailedToRetrieveImagePullSecret"

type pullSecrets struct{ objects podsync.Objects }

var _ podsync.Prompt = pullSecrets{}

func (pullSecrets) Name() string { return podsync.StagePullSecrets }

func (pullSecrets) Declare() podsync.Deps {
	return podsync.Deps{Provides: []podsync.AnyKey{podsync.PullSecrets, podsync.MissingPullSecrets}}
}

// Prompt implements podsync.Prompt: most pods name no secret.
func (pullSecrets) Prompt(s *podsync.Sync) bool { return len(s.Pod().Spec.ImagePullSecrets) == 0 }

func (st pullSecrets) Run(ctx context.Context, s *podsync.Sync) podsync.Outcome {
	pod := s.Pod()
	if len(pod.Spec.ImagePullSecrets) == 0 {
		return podsync.Skip("NoneNamed")
	}
	var found []*corev1.Secret
	var absent, unreadable []string
	var cause error
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue // the API allows it and it means nothing
		}
		secret, err := st.get(ctx, pod.Namespace, ref.Name)
		switch {
		case err == nil:
			found = append(found, secret)
		case ctx.Err() != nil:
			return podsync.FromErr(ctx.Err())
		case errors.Is(err, podsync.ErrNotFound):
			absent = append(absent, ref.Name)
		default:
			unreadable, cause = append(unreadable, ref.Name), err
		}
	}
	if len(absent) > 0 {
		s.Warn(ReasonPullSecret, "image pull secrets do not exist: %s; pulling may fail without them", strings.Join(absent, ", "))
	}
	if len(unreadable) > 0 {
		s.Warn(ReasonPullSecret, "image pull secrets cannot be read: %s: %v; pulling may fail without them", strings.Join(unreadable, ", "), cause)
	}
	if err := podsync.PullSecrets.Set(s, found); err != nil {
		return podsync.Retry(err)
	}
	return podsync.FromErr(podsync.MissingPullSecrets.Set(s, append(absent, unreadable...)))
}

func (st pullSecrets) get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if st.objects == nil {
		return nil, podsync.ErrNotFound
	}
	return st.objects.Secret(ctx, namespace, name)
}
