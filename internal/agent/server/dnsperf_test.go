package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func TestLoadReturnsWhatTheProgramSaid(t *testing.T) {
	r, err := runLoad(t.Context(), "/bin/sh", proto.DNSPerfSpec{Args: []string{"-c", "echo out; echo err >&2; exit 3"}, TimeoutMS: 10000})
	if err != nil || r.Stdout != "out\n" || r.Stderr != "err\n" || r.Exit != 3 || r.Wall <= 0 || time.Since(r.Start) > time.Minute {
		t.Errorf("%+v, %v", r, err)
	}
	// On a loaded machine the output is read long after the end; here it is printed then.
	r, err = runLoad(t.Context(), "/bin/sh", proto.DNSPerfSpec{Args: []string{"-c", "{ sleep 1.5; echo late; } & exit 0"}})
	if err != nil || r.Stdout != "late\n" || r.Exit != 0 {
		t.Errorf("late output: %+v, %v", r, err)
	}
}

// A program that does not end is interrupted first, so that it can report, and
// takes its children with it.
func TestLoadIsInterruptedAndKilled(t *testing.T) {
	r, err := runLoad(t.Context(), "/bin/sh", proto.DNSPerfSpec{Args: []string{"-c", `trap 'echo report; exit 7' INT; sleep 60 & wait`}, TimeoutMS: 1000})
	if err != nil || r.Stdout != "report\n" || r.Exit != 7 {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
	began := time.Now()
	r, err = runLoad(t.Context(), "/bin/sh", proto.DNSPerfSpec{Args: []string{"-c", `trap '' INT; sleep 60; sleep 60`}, TimeoutMS: 100})
	if err != nil || r.Exit != -1 || time.Since(began) > 10*time.Second {
		t.Errorf("killed: %+v, %v", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := runLoad(ctx, "/bin/sh", proto.DNSPerfSpec{Args: []string{"-c", "sleep 60"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestLoadSendsFromTheAddressThatItNames(t *testing.T) {
	_, err := dnsperf(t.Context(), proto.DNSPerfSpec{From: netip.MustParseAddr("198.18.0.128"), Args: []string{"-s", "198.18.0.101"}})
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != proto.CodeInvalid {
		t.Errorf("%v", err)
	}
}

func TestBoundedKeepsBothEnds(t *testing.T) {
	b := &bounded{limit: 100}
	for i := range 1000 {
		fmt.Fprintf(b, "line %03d\n", i)
	}
	s := b.String()
	if !strings.HasPrefix(s, "line 000\n") || !strings.HasSuffix(s, "line 999\n") || !strings.Contains(s, "bytes left out]") || len(s) > 400 {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	if b = (&bounded{limit: 100}); true {
		_, _ = b.Write([]byte(strings.Repeat("x", 150)))
	}
	if len(b.String()) != 150 {
		t.Errorf("%d bytes of 150", len(b.String()))
	}
}
