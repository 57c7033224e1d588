// Package content is what configMap, secret, downwardAPI and projected volumes
// have in common, and what a site's volume of generated files can use: choosing
// files out of an object, and keeping them in a directory or a tmpfs that is
// updated at once (package atomicwriter).
package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/atomicwriter"
	"github.com/podsync/sdk/volumes/emptydir"
	"github.com/podsync/sdk/volumes/plugin"
)

// DefaultMode is the mode of files for which the spec has none.
const DefaultMode = 0o644

// MissingError says that an object or a key of it does not exist. It matches
// podsync.ErrNotFound.
type MissingError struct {
	// Kind is "config map" or "secret".
	Kind string
	// Namespace and Name are those of the object.
	Namespace, Name string
	// Key is the key that is missing; "" when the whole object is.
	Key string
}

// Error names the object and the key.
func (e *MissingError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("%s %q has no key %q", e.Kind, e.Namespace+"/"+e.Name, e.Key)
	}
	return fmt.Sprintf("%s %q not found", e.Kind, e.Namespace+"/"+e.Name)
}

// Unwrap returns podsync.ErrNotFound.
func (e *MissingError) Unwrap() error { return podsync.ErrNotFound }

// Source says which files to make of an object.
type Source struct {
	// Items choose keys and say where they go; none takes every key by its name.
	Items []corev1.KeyToPath
	// Mode is that of files whose item has none; nil is DefaultMode.
	Mode *int32
	// Optional: a key, or the whole object, may be missing.
	Optional bool
}

// Mode returns the mode of a file: the item's, else the volume's, else DefaultMode.
func Mode(item, volume *int32) (fs.FileMode, error) {
	m := int32(DefaultMode)
	switch {
	case item != nil:
		m = *item
	case volume != nil:
		m = *volume
	}
	if m < 0 || m > 0o777 {
		return 0, fmt.Errorf("mode %#o of a file is not within 0 and 0777", m)
	}
	return fs.FileMode(m), nil
}

// Select makes the files of an object's data. missing is the error for a key
// that is not there; its Key is filled in.
func Select(data map[string][]byte, s Source, missing MissingError) (atomicwriter.Payload, error) {
	p := atomicwriter.Payload{}
	if len(s.Items) == 0 {
		mode, err := Mode(nil, s.Mode)
		if err != nil {
			return nil, err
		}
		for k, v := range data {
			if err := atomicwriter.ValidatePath(k); err != nil {
				return nil, err
			}
			p[k] = atomicwriter.File{Data: v, Mode: mode}
		}
		return p, nil
	}
	for _, it := range s.Items {
		if err := atomicwriter.ValidatePath(it.Path); err != nil {
			return nil, err
		}
		mode, err := Mode(it.Mode, s.Mode)
		if err != nil {
			return nil, err
		}
		v, ok := data[it.Key]
		if !ok {
			if s.Optional {
				continue
			}
			missing.Key = it.Key
			return nil, &missing
		}
		p[it.Path] = atomicwriter.File{Data: v, Mode: mode}
	}
	return p, nil
}

// ConfigMap reads a config map and makes its files. An optional one that does
// not exist has none; one that could not be read is an error all the same.
func ConfigMap(ctx context.Context, o podsync.Objects, namespace, name string, s Source) (atomicwriter.Payload, error) {
	missing := MissingError{Kind: "config map", Namespace: namespace, Name: name}
	cm, err := o.ConfigMap(ctx, namespace, name)
	if err != nil {
		return absent(err, s, missing)
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	maps.Copy(data, cm.BinaryData)
	return Select(data, s, missing)
}

// Secret is ConfigMap for a secret.
func Secret(ctx context.Context, o podsync.Objects, namespace, name string, s Source) (atomicwriter.Payload, error) {
	missing := MissingError{Kind: "secret", Namespace: namespace, Name: name}
	sec, err := o.Secret(ctx, namespace, name)
	if err != nil {
		return absent(err, s, missing)
	}
	return Select(sec.Data, s, missing)
}

func absent(err error, s Source, missing MissingError) (atomicwriter.Payload, error) {
	if !errors.Is(err, podsync.ErrNotFound) {
		return nil, fmt.Errorf("read %s %q: %w", missing.Kind, missing.Namespace+"/"+missing.Name, err)
	}
	if s.Optional {
		return atomicwriter.Payload{}, nil
	}
	return nil, &missing
}

// SetUp shows the payload at r.Dir, in a tmpfs when inMemory is set, owned by
// r.FSGroup. It writes only what changed.
func SetUp(ctx context.Context, r *plugin.Request, p atomicwriter.Payload, inMemory bool) (plugin.Mounted, error) {
	medium := corev1.StorageMediumDefault
	if inMemory {
		medium = corev1.StorageMediumMemory
	}
	if err := emptydir.Prepare(ctx, r, medium, nil); err != nil {
		return plugin.Mounted{}, err
	}
	gid := r.FSGroup
	if r.Host.Unprivileged {
		gid = nil
	}
	w := atomicwriter.Writer{Dir: r.Dir, GID: gid, Now: r.Host.Clock.Now}
	if _, err := w.Write(p); err != nil {
		return plugin.Mounted{}, err
	}
	return plugin.Mounted{Path: r.Dir}, nil
}

// Usable tells whether an earlier SetUp left a whole payload at r.Dir that is
// still there.
func Usable(r *plugin.Request) (plugin.Mounted, bool) {
	return plugin.Mounted{Path: r.Dir}, atomicwriter.Complete(r.Dir)
}

// TearDown unmounts and removes what SetUp made.
func TearDown(ctx context.Context, r *plugin.Removal) error { return emptydir.Remove(ctx, r) }
