package realruntime

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// removeRules removes the iptables rules and chains that CNI plugins made for a network, which they name in
// comments. Orderly removal of pods leaves none.
func removeRules(ctx context.Context, network string) error {
	save, err := findProgram("iptables-save")
	if err != nil {
		return nil // then no plugin can have made any
	}
	restore, err := findProgram("iptables-restore")
	if err != nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, save, "-t", "nat").Output()
	if err != nil {
		return fmt.Errorf("list iptables rules: %w", err)
	}
	script := undo(string(out), network)
	if script == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, restore, "--noflush")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("remove iptables rules of network %s: %w: %s", network, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// undo makes the input for iptables-restore that deletes what belongs to the network in the given nat table:
// rules with its name in their comment, and the chains these jump to.
func undo(table, network string) string {
	var rules, chains []string
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "-A ") || !strings.Contains(line, `\"`+network+`\"`) {
			continue
		}
		rules = append(rules, "-D"+strings.TrimPrefix(line, "-A"))
		fields := strings.Fields(line)
		for n, f := range fields[:len(fields)-1] {
			// CNI-HOSTPORT-… are common to all networks; the others are a container's own.
			if target := fields[n+1]; f == "-j" && strings.HasPrefix(target, "CNI-") && !strings.HasPrefix(target, "CNI-HOSTPORT-") {
				chains = append(chains, target)
			}
		}
	}
	if len(rules) == 0 {
		return ""
	}
	slices.Sort(chains)
	chains = slices.Compact(chains)
	var b strings.Builder
	b.WriteString("*nat\n")
	for _, r := range rules {
		// Rules inside a chain that goes anyway need no deletion of their own.
		if !slices.Contains(chains, strings.Fields(r)[1]) {
			b.WriteString(r + "\n")
		}
	}
	for _, c := range chains {
		fmt.Fprintf(&b, "-F %s\n-X %s\n", c, c)
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

// findProgram looks in PATH and where system programs are.
func findProgram(name string) (string, error) {
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if p, err := exec.LookPath(candidate); err == nil {
			return p, nil
		}
	}
	return "", errors.New(name + " not found")
}
