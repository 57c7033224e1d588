package manifest

import (
	"bytes"
	"fmt"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

const (
	// maxExpanded bounds, in bytes, what a document is with its aliases written
	// out: a file of a few hundred bytes can stand for gigabytes.
	maxExpanded = 4 * DefaultMaxFileSize
	// maxPadded bounds the work of giving faults the right line.
	maxPadded = 1 << 20
)

// toJSON turns a YAML document into JSON the way the kubelet does, in the
// dialect it accepts ("yes" is true). The document is looked at as a tree first:
// that finds what the conversion would silently resolve, or explode on.
func toJSON(c chunk) (json []byte, duplicates []string, err error) {
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(c.data, &doc); err != nil {
		return nil, nil, yamlFault(c, err)
	}
	t := tree{sizes: map[*yamlv3.Node]int{}, line: c.line - 1}
	if t.size(&doc) > maxExpanded {
		return nil, nil, fmt.Errorf("%w: its aliases stand for more than %d bytes", ErrTooLarge, maxExpanded)
	}
	if t.fault != nil {
		return nil, nil, t.fault
	}
	t.duplicates(&doc, "")
	json, err = yaml.YAMLToJSON(c.data)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return json, t.twice, nil
}

// yamlFault makes the line in the parser's text that of the file, by parsing
// once more with as many empty lines before the document.
func yamlFault(c chunk, err error) error {
	if c.line > 1 && c.line+len(c.data) < maxPadded {
		var doc yamlv3.Node
		padded := append(bytes.Repeat([]byte("\n"), c.line-1), c.data...)
		if e := yamlv3.Unmarshal(padded, &doc); e != nil {
			err = e
		}
	}
	return fmt.Errorf("%w: %w", ErrSyntax, err)
}

// tree walks a YAML document once per question.
type tree struct {
	sizes map[*yamlv3.Node]int // of what anchors name, written out
	line  int                  // of the document in the file, less 1
	fault error
	twice []string
}

// size returns how many bytes the node is about, aliases written out, or more
// than maxExpanded. Each anchored node is counted once.
func (t *tree) size(n *yamlv3.Node) int {
	if n.Kind == yamlv3.AliasNode {
		return t.anchored(n)
	}
	total := 1 + len(n.Value)
	for i, c := range n.Content {
		if n.Kind == yamlv3.MappingNode && i%2 == 0 {
			t.key(c)
		}
		total += t.size(c)
		if t.fault != nil || total > maxExpanded {
			return total
		}
	}
	if n.Anchor != "" {
		t.sizes[n] = total
	}
	return total
}

func (t *tree) anchored(alias *yamlv3.Node) int {
	n := alias.Alias
	size, known := t.sizes[n]
	if !known {
		// An anchor is complete before any alias of it, save for its own content.
		t.fail(alias, "an alias stands within what it names")
	}
	return size
}

// key checks that a mapping's key is one that JSON has: a word.
func (t *tree) key(k *yamlv3.Node) {
	if k.Kind == yamlv3.AliasNode {
		k = k.Alias
	}
	if k.Kind != yamlv3.ScalarNode || k.ShortTag() == "!!null" || k.ShortTag() == "!!binary" {
		t.fail(k, "a field's name is not a word")
	}
}

func (t *tree) fail(n *yamlv3.Node, what string) {
	if t.fault == nil {
		t.fault = syntax("line %d: %s", t.line+n.Line, what)
	}
}

// duplicates finds fields that a mapping has twice. A field beside a merge key
// that replaces a merged one is no duplicate.
func (t *tree) duplicates(n *yamlv3.Node, path string) {
	if len(t.twice) >= maxFaults {
		return
	}
	switch n.Kind {
	case yamlv3.DocumentNode:
		for _, c := range n.Content {
			t.duplicates(c, path)
		}
	case yamlv3.SequenceNode:
		for i, c := range n.Content {
			t.duplicates(c, fmt.Sprintf("%s[%d]", path, i))
		}
	case yamlv3.MappingNode:
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			field := strings.TrimPrefix(path+"."+key, ".")
			if seen[key] && key != "<<" {
				t.twice = append(t.twice, field)
			}
			seen[key] = true
			t.duplicates(n.Content[i+1], field)
		}
	}
}
