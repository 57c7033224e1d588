package objects

import (
	"errors"
	"fmt"

	"github.com/podsync/sdk/podsync"
)

// NotFoundError says which object does not exist. It matches podsync.ErrNotFound.
type NotFoundError struct{ Kind, Namespace, Name string }

// Error names the object.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s %s/%s: %v", e.Kind, e.Namespace, e.Name, podsync.ErrNotFound)
}

// Is matches podsync.ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == podsync.ErrNotFound }

// ErrNotRead says that a Dir has not read its directory yet, so that it cannot
// tell whether an object exists.
var ErrNotRead = errors.New("the directory of objects has not been read yet")
