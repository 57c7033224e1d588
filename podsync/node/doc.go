// Package node puts the SDK's own parts together: the standard stages over a
// CRI runtime, cgroups, volumes and a status manager, driven by an Agent. It is
// the shortest way from a runtime to running pods, and it is open: the Plan can
// be changed until Run builds it.
//
//	n, err := node.New(node.Config{Runtime: rt, Images: rt, Root: dir, Sources: sources})
//	n.Plan.Admit.Before(podsync.StageResources, License{})
//	err = n.Run(ctx)
package node
