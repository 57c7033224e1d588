package atomicwriter

// OnStep makes the writer call fn before every change to the disk; its error is
// that change's.
func (w *Writer) OnStep(fn func(step string) error) { w.step = fn }
