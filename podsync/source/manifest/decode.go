package manifest

import (
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
)

// Decode decodes the object into its type, strictly: fields that the type does
// not have and fields given twice are warnings, a value that does not fit is a
// *DecodeError. into is a pointer to a struct of an API type.
func (o *Object) Decode(into any) ([]Warning, error) {
	strict, err := kjson.UnmarshalStrict(o.JSON, into, kjson.DisallowUnknownFields)
	if err != nil {
		field, fault := typeFault(err)
		return nil, &DecodeError{Place: o.Place, Field: field, Err: fault}
	}
	var warnings []Warning
	for _, f := range o.duplicates {
		warnings = append(warnings, o.warning(DuplicateField, f, fmt.Sprintf("field %q is given twice; the last one counts", f)))
	}
	for _, e := range strict {
		var fe kjson.FieldError
		if errors.As(e, &fe) {
			warnings = append(warnings, o.warning(UnknownField, fe.FieldPath(), fmt.Sprintf("field %q is unknown and was ignored", fe.FieldPath())))
		}
	}
	return warnings, nil
}

// Skip returns the warning that says that this reader leaves the object to
// another one, of which reader is the name.
func (o *Object) Skip(reader string) Warning {
	return o.warning(Skipped, "", fmt.Sprintf("skipped: a %s is for %s to read", o.Kind, reader))
}

func (o *Object) warning(kind WarningKind, field, message string) Warning {
	return Warning{Place: o.Place, Kind: kind, Field: field, Message: message}
}
