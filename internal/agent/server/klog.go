package server

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerKernelLog(s *Server) {
	Handle(s, proto.KernelLog, kernelLog)
}

// maxKernelRecord is CONSOLE_EXT_LOG_MAX, the longest record of /dev/kmsg.
const maxKernelRecord = 8192

func kernelLog(_ context.Context, spec proto.KernelLogSpec) ([]proto.KernelLine, error) {
	lines := []proto.KernelLine{}
	err := eachKernelLine(func(l proto.KernelLine) {
		if l.Seq > spec.Since {
			lines = append(lines, l)
		}
	})
	return lines, err
}

func eachKernelLine(f func(proto.KernelLine)) error {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(proto.CodeFailed, "/dev/kmsg", "open: %v", err)
	}
	defer unix.Close(fd)
	record := make([]byte, maxKernelRecord)
	for {
		n, err := unix.Read(fd, record) // one record at a time
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // overwritten while being read: the next one follows
		case err != nil:
			return fail(proto.CodeFailed, "/dev/kmsg", "read: %v", err)
		}
		if l, ok := parseKernelLine(string(record[:n])); ok {
			f(l)
		}
	}
}

// parseKernelLine reads "6,339,5140900,-;text" (Documentation/ABI/testing/dev-kmsg);
// lines that follow the first begin with a blank and hold dictionary entries.
func parseKernelLine(record string) (proto.KernelLine, bool) {
	head, text, ok := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return proto.KernelLine{}, false
	}
	text, _, _ = strings.Cut(text, "\n")
	priority, err1 := strconv.ParseUint(fields[0], 10, 32)
	seq, err2 := strconv.ParseUint(fields[1], 10, 64)
	usec, err3 := strconv.ParseUint(fields[2], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return proto.KernelLine{}, false
	}
	return proto.KernelLine{Seq: seq, Level: int(priority & 7), USec: usec, Text: text}, true
}

// lastKernelSeq is the number of the newest message.
func lastKernelSeq() uint64 {
	var last uint64
	_ = eachKernelLine(func(l proto.KernelLine) { last = l.Seq })
	return last
}
