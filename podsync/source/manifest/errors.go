package manifest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Place is a place in a manifest.
type Place struct {
	// File is the path or URL as given to Read.
	File string
	// Document counts the file's documents from 1, empty ones left out; 0 is the
	// file as a whole.
	Document int
	// Line is where the document begins, from 1; 0 if it is not known.
	Line int
	// Item is the path of the object in a list, as in "items[3]"; "" outside lists.
	Item string
	// Object is what the object says it is, as in "Pod default/web"; "" if that
	// could not be read.
	Object string
}

// String names the place, as in `web.yaml: document 2 (line 14), Pod default/web`.
func (p Place) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Document > 0 {
		fmt.Fprintf(&b, ": document %d", p.Document)
		if p.Line > 0 {
			fmt.Fprintf(&b, " (line %d)", p.Line)
		}
	}
	if p.Item != "" {
		b.WriteString(", " + p.Item)
	}
	if p.Object != "" {
		b.WriteString(", " + p.Object)
	}
	return b.String()
}

// DecodeError says what is wrong with a document.
type DecodeError struct {
	Place
	// Field is the path of the field in the object, "" if it is not one field.
	Field string
	// Err is the fault. Match it with errors.Is: ErrSyntax, ErrTooLarge, ErrEmpty,
	// ErrNotObject, ErrKind; any other is a value that does not fit its field.
	Err error
}

// Error names the place, the field and the fault.
func (e *DecodeError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %v", e.Place, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Place, e.Field, e.Err)
}

// Unwrap returns the fault.
func (e *DecodeError) Unwrap() error { return e.Err }

// The faults that a reader may want to tell apart.
var (
	// ErrSyntax: the document is neither YAML nor JSON.
	ErrSyntax = errors.New("syntax error")
	// ErrTooLarge: the file, or what its aliases stand for, is too large.
	ErrTooLarge = errors.New("too large")
	// ErrEmpty: the file has no document; perhaps it is just being written.
	ErrEmpty = errors.New("contains no document")
	// ErrNotObject: the document is a list, a string or the like.
	ErrNotObject = errors.New("is not an object")
	// ErrKind: the document's kind or apiVersion is missing or not supported.
	ErrKind = errors.New("unsupported kind")
)

// WarningKind says what a Warning is about.
type WarningKind int

const (
	// UnknownField: the object has a field that its type does not have; it was ignored.
	UnknownField WarningKind = iota + 1
	// DuplicateField: a field stands there twice; the last one counts.
	DuplicateField
	// Skipped: the document is an object that another reader of the directory is
	// for, a Secret among pods say.
	Skipped
)

// String returns the kind's name.
func (k WarningKind) String() string {
	switch k {
	case UnknownField:
		return "UnknownField"
	case DuplicateField:
		return "DuplicateField"
	case Skipped:
		return "Skipped"
	default:
		return "WarningKind(" + strconv.Itoa(int(k)) + ")"
	}
}

// Warning is something odd in a document that was read all the same. It is also
// an error, for lists that hold both.
type Warning struct {
	Place
	// Kind says what it is about.
	Kind WarningKind
	// Field is the path of the field, "" for Skipped.
	Field string
	// Message is the whole for people, without the place.
	Message string
}

// Error names the place and the oddity.
func (w Warning) Error() string { return w.Place.String() + ": " + w.Message }
