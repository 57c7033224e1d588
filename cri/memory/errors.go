package memory

import (
	"encoding/json"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callError is an error with the code that a CRI client sees, and with its cause for errors.Is in tests.
type callError struct {
	code codes.Code
	err  error
}

func (e *callError) Error() string              { return e.err.Error() }
func (e *callError) Unwrap() error              { return e.err }
func (e *callError) GRPCStatus() *status.Status { return status.New(e.code, e.err.Error()) }

// unknown is what containerd answers for an error without a class of its own.
func unknown(err error) error {
	if _, has := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); has {
		return err
	}
	return &callError{codes.Unknown, err}
}

// infoJSON is the info map of a verbose answer.
func infoJSON(v any) map[string]string {
	data, err := json.Marshal(v)
	if err != nil {
		return map[string]string{"info": err.Error()}
	}
	return map[string]string{"info": string(data)}
}
