package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FileSink writes each pod's status to a file of its own, Dir/<uid>.json: a pod
// object with metadata and status. A file is replaced as a whole, so that a
// reader sees the old one or the new one. Safe for concurrent use by different
// pods.
type FileSink struct {
	// Dir is the directory, made with mode 0700 when it is missing. Required.
	Dir string
	// Durable waits until a write has reached the disk. The default does not: the
	// last writes before a power cut may then be lost, never more than those.
	Durable bool
}

var (
	_ Sink   = (*FileSink)(nil)
	_ Loader = (*FileSink)(nil)
)

// maxRecordFile is the size above which a file is no status of ours.
const maxRecordFile = 4 << 20

const (
	recordSuffix = ".json"
	tempPrefix   = ".tmp-"
)

// recordFile is the content of a file: what `kubectl get -o json` would show of
// a pod's identity and status.
type recordFile struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   recordMeta       `json:"metadata"`
	Status     corev1.PodStatus `json:"status"`
}

type recordMeta struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	UID       types.UID `json:"uid"`
}

// BadRecordError says that a file does not hold a status.
type BadRecordError struct {
	// Path is the file, Err what is wrong with it.
	Path string
	Err  error
}

// Error names the file.
func (e *BadRecordError) Error() string {
	return fmt.Sprintf("status file %s is left out: %v", e.Path, e.Err)
}

// Unwrap returns what is wrong.
func (e *BadRecordError) Unwrap() error { return e.Err }

// Patch replaces the pod's file.
func (k *FileSink) Patch(ctx context.Context, r Record) error {
	path, err := k.path(r.Ref)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write status of pod %s: %w", r.Ref, err)
	}
	data, err := json.Marshal(recordFile{
		APIVersion: "v1", Kind: "Pod",
		Metadata: recordMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID},
		Status:   r.Status,
	})
	if err != nil {
		return fmt.Errorf("encode status of pod %s: %w", r.Ref, err)
	}
	if err := k.replace(path, append(data, '\n')); err != nil {
		return fmt.Errorf("write status of pod %s: %w", r.Ref, err)
	}
	return nil
}

// Delete removes the pod's file.
func (k *FileSink) Delete(ctx context.Context, r Ref) error {
	path, err := k.path(r)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete status of pod %s: %w", r, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete status of pod %s: %w", r, err)
	}
	return k.syncDir()
}

// Load reads all files. One that does not hold a status is left out and its
// *BadRecordError is part of the error; the rest is returned. Remains of writes
// that were cut short are removed. Call it before the first Patch.
func (k *FileSink) Load(ctx context.Context) ([]Record, error) {
	entries, err := os.ReadDir(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load statuses: %w", err)
	}
	var out []Record
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return out, errors.Join(append(errs, fmt.Errorf("load statuses: %w", err))...)
		}
		path := filepath.Join(k.Dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
			if err := os.Remove(path); err != nil {
				errs = append(errs, fmt.Errorf("remove an unfinished status: %w", err))
			}
		case strings.HasSuffix(e.Name(), recordSuffix):
			r, err := readRecord(path, strings.TrimSuffix(e.Name(), recordSuffix))
			if err != nil {
				errs = append(errs, &BadRecordError{Path: path, Err: err})
				continue
			}
			out = append(out, r)
		}
	}
	return out, errors.Join(errs...)
}

func readRecord(path, uid string) (Record, error) {
	// Lstat first: opening a FIFO would block, following a link is not wanted.
	info, err := os.Lstat(path)
	if err != nil {
		return Record{}, err
	}
	if !info.Mode().IsRegular() {
		return Record{}, fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecordFile+1))
	if err != nil {
		return Record{}, err
	}
	if len(data) > maxRecordFile {
		return Record{}, fmt.Errorf("it is larger than %d bytes", maxRecordFile)
	}
	var rf recordFile
	if err := json.Unmarshal(data, &rf); err != nil {
		return Record{}, fmt.Errorf("parse: %w", err)
	}
	r := Record{Ref: Ref{UID: rf.Metadata.UID, Namespace: rf.Metadata.Namespace, Name: rf.Metadata.Name}, Status: rf.Status}
	if string(r.UID) != uid {
		return Record{}, fmt.Errorf("metadata.uid is %q", r.UID)
	}
	return r, validateRef(r.Ref)
}

// path returns the pod's file after making sure that its name can be one.
func (k *FileSink) path(r Ref) (string, error) {
	if k.Dir == "" {
		return "", errors.New("status files: no directory is set")
	}
	if err := validateRef(r); err != nil {
		return "", fmt.Errorf("status of pod %q: %w", r.String(), err)
	}
	return filepath.Join(k.Dir, string(r.UID)+recordSuffix), nil
}

// validateRef refuses what could leave the directory or is no pod's identity.
func validateRef(r Ref) error {
	if err := validateUID(r.UID); err != nil {
		return err
	}
	if msgs := validation.IsDNS1123Label(r.Namespace); len(msgs) > 0 {
		return fmt.Errorf("metadata.namespace %q: %s", r.Namespace, msgs[0])
	}
	if msgs := validation.IsDNS1123Subdomain(r.Name); len(msgs) > 0 {
		return fmt.Errorf("metadata.name %q: %s", r.Name, msgs[0])
	}
	return nil
}

func validateUID(uid types.UID) error {
	if len(uid) == 0 || len(uid) > 128 {
		return fmt.Errorf("metadata.uid %q has %d characters, want 1 to 128", uid, len(uid))
	}
	for i, c := range []byte(uid) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-') {
			return fmt.Errorf("metadata.uid %q: only letters, digits and inner '-' are allowed", uid)
		}
	}
	return nil
}

// replace writes a file beside the old one and renames it into place.
func (k *FileSink) replace(path string, data []byte) error {
	f, err := os.CreateTemp(k.Dir, tempPrefix+"*")
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(k.Dir, 0o700); err != nil {
			return err
		}
		f, err = os.CreateTemp(k.Dir, tempPrefix+"*")
	}
	if err != nil {
		return err
	}
	err = errors.Join(k.fill(f, data), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return k.syncDir()
}

func (k *FileSink) fill(f *os.File, data []byte) error {
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if k.Durable {
		return f.Sync()
	}
	return nil
}

// syncDir makes a rename or removal durable.
func (k *FileSink) syncDir() error {
	if !k.Durable {
		return nil
	}
	d, err := os.Open(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
