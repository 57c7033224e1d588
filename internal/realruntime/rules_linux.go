package realruntime

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// natTable returns the rules of iptables' nat table, as iptables-save prints them; empty without iptables,
// because then no plugin can have made any.
func natTable(ctx context.Context) (string, error) {
	save, err := findProgram("iptables-save")
	if err != nil {
		return "", nil
	}
	out, err := exec.CommandContext(ctx, save, "-t", "nat").Output()
	if err != nil {
		return "", fmt.Errorf("list iptables rules: %w", err)
	}
	return string(out), nil
}

// applyRules gives iptables-restore a script that changes the table in one step; an empty one is fine.
func applyRules(ctx context.Context, script string) error {
	if script == "" {
		return nil
	}
	restore, err := findProgram("iptables-restore")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, restore, "--noflush", "--wait", "5")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("remove iptables rules: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// removeRules removes the iptables rules and chains that CNI plugins made for a network, which they name in
// comments. Orderly removal of pods leaves none.
func removeRules(ctx context.Context, network string) error {
	table, err := natTable(ctx)
	if err != nil {
		return err
	}
	return applyRules(ctx, undo(table, network))
}

// hostPortChains is the start of the names of the chains that the portmap plugin makes once and keeps.
const hostPortChains = "CNI-HOSTPORT-"

// undoHostPorts makes the script that removes the portmap plugin's common chains; empty when there are none
// or a pod of somebody else's still has rules in them.
func undoHostPorts(table string) string {
	var rules, chains []string
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, ":"+hostPortChains):
			chains = append(chains, strings.TrimPrefix(fields[0], ":"))
		case strings.HasPrefix(line, "-A "+hostPortChains+"DNAT"):
			return ""
		case strings.HasPrefix(line, "-A ") && !strings.HasPrefix(fields[1], hostPortChains) && strings.HasPrefix(fields[len(fields)-1], hostPortChains):
			rules = append(rules, "-D"+strings.TrimPrefix(line, "-A"))
		}
	}
	if len(chains) == 0 {
		return ""
	}
	return script(rules, chains)
}

// script deletes rules, then chains with all that is in them.
func script(rules, chains []string) string {
	var b strings.Builder
	b.WriteString("*nat\n")
	for _, r := range rules {
		b.WriteString(r + "\n")
	}
	for _, c := range chains {
		fmt.Fprintf(&b, "-F %s\n", c)
	}
	for _, c := range chains {
		fmt.Fprintf(&b, "-X %s\n", c)
	}
	b.WriteString("COMMIT\n")
	return b.String()
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
			// The host-port chains are common to all networks; the others are a container's own.
			if target := fields[n+1]; f == "-j" && strings.HasPrefix(target, "CNI-") && !strings.HasPrefix(target, hostPortChains) {
				chains = append(chains, target)
			}
		}
	}
	if len(rules) == 0 {
		return ""
	}
	slices.Sort(chains)
	chains = slices.Compact(chains)
	// Rules inside a chain that goes anyway need no deletion of their own.
	rules = slices.DeleteFunc(rules, func(r string) bool { return slices.Contains(chains, strings.Fields(r)[1]) })
	return script(rules, chains)
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
