package kubeclient

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Selection says which objects are followed.
type Selection struct {
	// Resource is "pods", "secrets".
	Resource string
	// Namespace is "" for all, and for what has none.
	Namespace string
	// Fields selects among them; nil takes all.
	Fields fields.Selector
	// Kind and List are empty objects of the types.
	Kind, List runtime.Object
}

// Follow keeps a store up to date with what the API server has of a selection,
// by a list and a watch with bookmarks, until ctx ends. A watch that cannot be
// resumed is begun anew by a list, which the store gets as a Replace; a server
// that does not answer is asked again, after up to about 30 s. What client-go has
// to say of that goes to log at Debug.
func Follow(ctx context.Context, c rest.Interface, params runtime.ParameterCodec, sel Selection, store cache.ReflectorStore, log *slog.Logger) {
	request := func(o metav1.ListOptions) *rest.Request {
		if sel.Fields != nil {
			o.FieldSelector = sel.Fields.String()
		}
		return c.Get().NamespaceIfScoped(sel.Namespace, sel.Namespace != "").Resource(sel.Resource).VersionedParams(&o, params)
	}
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out := sel.List.DeepCopyObject()
			return out, request(o).Do(ctx).Into(out)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}, nil)
	quiet := logr.FromSlogHandler(quieter{log.Handler()})
	r := cache.NewReflectorWithOptions(lw, sel.Kind, store, cache.ReflectorOptions{Logger: &quiet, Name: sel.Resource})
	r.RunWithContext(klog.NewContext(ctx, quiet))
}

// quieter is a handler that takes everything down to Debug.
type quieter struct{ slog.Handler }

func (q quieter) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quieter) WithAttrs(a []slog.Attr) slog.Handler { return quieter{q.Handler.WithAttrs(a)} }
func (q quieter) WithGroup(n string) slog.Handler      { return quieter{q.Handler.WithGroup(n)} }
