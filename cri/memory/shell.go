package memory

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Commands is a rule that guesses a container's behaviour from its command, so that ordinary manifests do
// something sensible where nothing can be executed: "sleep 5", "echo hello", "exit 3", "false", and "sh -c"
// with a list of such commands joined by ; && or newlines, end after the sum of their sleeps with the code and
// the output that a shell would give; file commands (cp, mkdir, chmod, …) take no time and succeed; anything
// else, and a script with loops, conditions or traps, runs until it is stopped. It knows every container whose
// configuration has a command or arguments.
func Commands() Rule {
	return func(c Container) (Behaviour, bool) {
		argv := slices.Concat(c.Config.GetCommand(), c.Config.GetArgs())
		if len(argv) == 0 {
			return Behaviour{}, false
		}
		if script, ok := shellScript(argv); ok {
			return guess(statements(script)), true
		}
		return guess([]statement{{words: argv}}), true
	}
}

// shellScript is the script of sh -c, also of sh -ec.
func shellScript(argv []string) (string, bool) {
	if !slices.Contains([]string{"sh", "ash", "bash", "dash"}, path.Base(argv[0])) || len(argv) < 3 {
		return "", false
	}
	for i, a := range argv[1 : len(argv)-1] {
		if strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") {
			return argv[i+2], true
		}
	}
	return "", false
}

// statement is one simple command of a script.
type statement struct {
	words []string
	and   bool // only when the one before has succeeded
}

// statements splits a script. Quotes group words; everything finer is left to guess, which does not know it.
func statements(script string) []statement {
	var out []statement
	var word strings.Builder
	cur := statement{}
	var quote rune
	inWord := false
	endWord := func() {
		if inWord {
			cur.words = append(cur.words, word.String())
			word.Reset()
			inWord = false
		}
	}
	end := func(and bool) {
		endWord()
		if len(cur.words) > 0 {
			out = append(out, cur)
		}
		cur = statement{and: and}
	}
	rs := []rune(script)
	for i := 0; i < len(rs); i++ {
		switch r := rs[i]; {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			endWord()
		case r == ';' || r == '\n':
			end(false)
		case r == '&' && i+1 < len(rs) && rs[i+1] == '&':
			end(true)
			i++
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end(false)
	return out
}

// quiet says whether a command succeeds at once.
func quiet(name string) bool {
	switch name {
	case ":", "true", "cat", "chmod", "chown", "cp", "date", "env", "hostname", "id", "ln", "ls", "mkdir", "mv", "printf", "pwd",
		"rm", "set", "sync", "touch", "umask", "uname", "[", "test", "export", "cd":
		return true
	}
	return false
}

// guess runs the statements in thought.
func guess(list []statement) Behaviour {
	b := Behaviour{Exits: true}
	stopOnError := false
	for _, s := range list {
		if s.and && b.ExitCode != 0 {
			continue
		}
		words := s.words
		if words[0] == "exec" && len(words) > 1 {
			words = words[1:]
		}
		name := path.Base(words[0])
		switch {
		case slices.ContainsFunc(words, func(w string) bool { return w == "|" || w == "||" || w == "&" }):
			return Behaviour{Log: b.Log}
		case name == "exit":
			if len(words) > 1 {
				code, err := strconv.ParseUint(words[1], 10, 8)
				if err != nil {
					return Behaviour{Log: b.Log}
				}
				b.ExitCode = int32(code)
			}
			return b
		case name == "sleep" && len(words) > 1:
			d, ok := sleepTime(words[1:])
			if !ok {
				return Behaviour{Log: b.Log}
			}
			b.RunFor += d
			b.ExitCode = 0
		case name == "echo":
			if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, ">") }) {
				b.Log = append(b.Log, strings.Join(words[1:], " "))
			}
			b.ExitCode = 0
		case name == "false":
			b.ExitCode = 1
			if stopOnError {
				return b
			}
		case quiet(name):
			stopOnError = stopOnError || name == "set" && len(words) > 1 && strings.Contains(words[1], "e")
			b.ExitCode = 0
		default:
			return Behaviour{Log: b.Log}
		}
	}
	return b
}

// sleepTime is the sum of sleep's arguments: 5, 0.5, 2m.
func sleepTime(args []string) (sum time.Duration, ok bool) {
	for _, a := range args {
		if n, err := strconv.ParseFloat(a, 64); err == nil && n >= 0 && n < 1e8 {
			sum += time.Duration(n * float64(time.Second))
			continue
		}
		unit := time.Duration(1)
		if days, cut := strings.CutSuffix(a, "d"); cut {
			a, unit = days+"h", 24
		}
		d, err := time.ParseDuration(a)
		if err != nil || d < 0 || d > 30000*time.Hour {
			return 0, false
		}
		sum += d * unit
	}
	return sum, true
}
