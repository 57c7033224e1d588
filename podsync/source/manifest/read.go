package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Object is one object of a file, not yet decoded into its type.
type Object struct {
	Place
	// APIVersion and Kind say what it is, as in "v1" and "Pod". Never empty.
	APIVersion, Kind string
	// Namespace and Name are those of its metadata, "" if it has none.
	Namespace, Name string
	// JSON is the object as JSON, items of a list completed with the kind.
	JSON []byte

	duplicates []string
}

// Read splits a file into its objects: documents of YAML, separated by "---", or
// of JSON, and the items of lists (List, PodList and the like). file only goes
// into messages. A document that is not an object is an error; the others are
// returned all the same. A file with no document at all is an ErrEmpty: an empty
// list must be written as one, so that a file just being written is not taken
// for a wish to have nothing.
func Read(file string, data []byte) ([]Object, []*DecodeError) {
	r := &reader{file: file}
	if enc := notUTF8(data); enc != "" {
		r.fail(Place{File: file}, "", syntax("the file is in %s; it must be in UTF-8", enc))
		return nil, r.errs
	}
	for _, c := range split(data) {
		if r.full() {
			break
		}
		r.chunk(c)
	}
	if r.documents == 0 {
		r.fail(Place{File: file}, "", ErrEmpty)
	}
	return r.objs, r.errs
}

type reader struct {
	file      string
	documents int
	objs      []Object
	errs      []*DecodeError
}

// full tells whether to give up on the file.
func (r *reader) full() bool {
	switch {
	case len(r.errs) > maxFaults:
		return true
	case len(r.errs) == maxFaults:
		r.fail(Place{File: r.file}, "", errors.New("too many faults; the rest of the file was not read"))
		return true
	case len(r.objs) >= maxDocuments || r.documents >= maxDocuments:
		r.fail(Place{File: r.file}, "", fmt.Errorf("%w: more than %d objects", ErrTooLarge, maxDocuments))
		return true
	}
	return false
}

func (r *reader) fail(p Place, field string, err error) {
	r.errs = append(r.errs, &DecodeError{Place: p, Field: field, Err: err})
}

func (r *reader) place(line int) Place {
	r.documents++
	return Place{File: r.file, Document: r.documents, Line: line}
}

func (r *reader) chunk(c chunk) {
	if first := bytes.TrimLeft(c.data, " \t\r\n\ufeff"); len(first) > 0 && first[0] == '{' {
		r.jsonStream(c)
		return
	}
	p := r.place(c.line)
	doc, duplicates, err := toJSON(c)
	if err != nil {
		r.fail(p, "", err)
		return
	}
	r.object(p, doc, duplicates, "")
}

// jsonStream reads JSON documents that follow one another.
func (r *reader) jsonStream(c chunk) {
	data := bytes.TrimPrefix(c.data, []byte("\ufeff"))
	d := json.NewDecoder(bytes.NewReader(data))
	for !r.full() {
		begin := int(d.InputOffset())
		begin += len(data[begin:]) - len(bytes.TrimLeft(data[begin:], " \t\r\n"))
		line := c.line + bytes.Count(data[:begin], []byte("\n"))
		var doc json.RawMessage
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return
		}
		p := r.place(line)
		if err != nil {
			r.fail(p, "", jsonFault(c, data, err))
			return // where the next document begins cannot be told
		}
		r.object(p, doc, jsonDuplicates(doc), "")
	}
}

// jsonDuplicates lists the fields that an object has twice.
func jsonDuplicates(doc []byte) (fields []string) {
	var v any
	strict, err := kjson.UnmarshalStrict(doc, &v, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil // the typed decoder says what is wrong
	}
	for _, e := range strict {
		var fe kjson.FieldError
		if errors.As(e, &fe) {
			fields = append(fields, fe.FieldPath())
		}
	}
	return fields
}

func jsonFault(c chunk, data []byte, err error) error {
	var se *json.SyntaxError
	if errors.As(err, &se) {
		at := min(int(se.Offset), len(data))
		return syntax("line %d: %v", c.line+bytes.Count(data[:at], []byte("\n")), err)
	}
	return fmt.Errorf("%w: %w", ErrSyntax, err)
}

// head is what tells objects apart.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Items *[]json.RawMessage `json:"items"`
}

// object takes one document, or one item of a list of itemKind.
func (r *reader) object(p Place, doc []byte, duplicates []string, itemKind string) {
	if doc = bytes.TrimSpace(doc); len(doc) == 0 || doc[0] != '{' {
		r.fail(p, "", fmt.Errorf("%w but %s", ErrNotObject, jsonType(doc)))
		return
	}
	var h head
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &h); err != nil {
		field, err := typeFault(err)
		r.fail(p, field, err)
		return
	}
	if itemKind != "" && h.Kind == "" && h.APIVersion == "" {
		h.Kind, h.APIVersion = itemKind, "v1"
		rest, comma := bytes.TrimSpace(doc[1:]), ","
		if rest[0] == '}' {
			comma = ""
		}
		doc = append([]byte(`{"apiVersion":"v1","kind":"`+itemKind+`"`+comma), rest...)
	}
	p.Object = describe(h)
	switch {
	case h.Kind == "":
		r.fail(p, "kind", fmt.Errorf("%w: it is missing", ErrKind))
	case h.APIVersion == "":
		r.fail(p, "apiVersion", fmt.Errorf("%w: it is missing", ErrKind))
	case h.APIVersion == "v1" && strings.HasSuffix(h.Kind, "List"):
		r.list(p, h, duplicates)
	default:
		r.objs = append(r.objs, Object{Place: p, APIVersion: h.APIVersion, Kind: h.Kind,
			Namespace: h.Metadata.Namespace, Name: h.Metadata.Name, JSON: doc, duplicates: duplicates})
	}
}

func (r *reader) list(p Place, h head, duplicates []string) {
	switch {
	case p.Item != "":
		r.fail(p, "", fmt.Errorf("%w: a list in a list", ErrKind))
		return
	case h.Items == nil:
		r.fail(p, "items", errors.New("is missing; an empty list is written []"))
		return
	}
	for i, item := range *h.Items {
		if r.full() {
			return
		}
		ip := p
		ip.Item, ip.Object = fmt.Sprintf("items[%d]", i), ""
		var own []string
		for _, f := range duplicates {
			if f, ok := strings.CutPrefix(f, ip.Item+"."); ok {
				own = append(own, f)
			}
		}
		r.object(ip, item, own, strings.TrimSuffix(h.Kind, "List"))
	}
}

// describe names an object for messages, whatever its names hold.
func describe(h head) string {
	name := h.Metadata.Name
	if h.Metadata.Namespace != "" {
		name = h.Metadata.Namespace + "/" + name
	}
	s := strings.TrimSpace(h.Kind + " " + name)
	if len(s) > 320 {
		s = strings.ToValidUTF8(s[:320], "") + "…"
	}
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}

func jsonType(doc []byte) string {
	if len(doc) == 0 {
		return "empty"
	}
	switch doc[0] {
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}

// typeFault takes the field out of a decoder's error. What is left shows types
// only: the value may be a secret.
func typeFault(err error) (field string, fault error) {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		got, _, _ := strings.Cut(te.Value, " ")
		hint := ""
		if te.Type.Kind() == reflect.String && (got == "number" || got == "bool") {
			hint = "; write it in quotes"
		}
		return te.Field, fmt.Errorf("cannot use %s as %s%s", got, wanted(te.Type), hint)
	}
	return "", err
}

// wanted names a type in the words of JSON, numbers with their size.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "object"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64"
		}
		return "array"
	default:
		return t.Kind().String()
	}
}
