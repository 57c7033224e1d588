//go:build !linux

package main

import (
	"time"

	"github.com/podsync/sdk/internal/realruntime"
)

func cpuTime(int) (time.Duration, error) { return 0, realruntime.ErrUnsupported }

func residentMemory(int) (float64, error) { return 0, realruntime.ErrUnsupported }
