package main

import (
	"crypto/subtle"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"
)

// guard stands before the registry: it refuses what is not a read, asks for a password below private/, and
// slows layers down.
type guard struct {
	next           http.Handler
	user, password string
	rate           int64 // bytes a second, 0 is no limit
	log            *log.Logger
}

// ServeHTTP implements http.Handler.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.log.Printf("%s %s", r.Method, r.URL.Path)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is read-only")
	case private(r.URL.Path) && !g.allowed(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="demoregistry"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "user and password are needed for private/")
	default:
		if g.rate > 0 && strings.Contains(r.URL.Path, "/blobs/") {
			w = &slow{ResponseWriter: w, r: r, rate: g.rate}
		}
		g.next.ServeHTTP(w, r)
	}
}

// private tells whether a path of the registry API is about a repository below private/.
func private(path string) bool {
	return strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(path, "/v2"), "/"), "private/")
}

// allowed checks user and password in constant time.
func (g guard) allowed(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	same := subtle.ConstantTimeCompare([]byte(user), []byte(g.user)) & subtle.ConstantTimeCompare([]byte(password), []byte(g.password))
	return ok && g.password != "" && same == 1
}

// refuse answers in the error format of the distribution specification.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`+"\n", code, message)
}

// slow is a ResponseWriter that passes on a limited number of bytes a second.
type slow struct {
	http.ResponseWriter
	r    *http.Request
	rate int64
}

// slices a second: often enough that a client sees steady progress.
const slices = 20

// Write passes p on in slices and stops when the client has gone.
func (s *slow) Write(p []byte) (int, error) {
	step := max(int(s.rate/slices), 1)
	written := 0
	for written < len(p) {
		end := min(written+step, len(p))
		n, err := s.ResponseWriter.Write(p[written:end])
		written += n
		if err != nil {
			return written, err
		}
		if f, ok := s.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case <-s.r.Context().Done():
			return written, s.r.Context().Err()
		case <-time.After(time.Duration(n) * time.Second / time.Duration(s.rate)):
		}
	}
	return written, nil
}
