package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// knotItem is one message of knotd's control protocol: texts by what they are.
type knotItem map[knotField]string

// knotField is the code of a text (src/libknot/control/control.h of Knot DNS 3.2,
// knot_ctl_idx_t, plus the 16 of control.c).
type knotField byte

const (
	knotCmd     knotField = 0x10
	knotError   knotField = 0x12
	knotSection knotField = 0x13
	knotName    knotField = 0x14
	knotID      knotField = 0x15
	knotZone    knotField = 0x16
	knotType    knotField = 0x19
	knotData    knotField = 0x1a
	knotFilter  knotField = 0x1b
)

// The codes of units: END closes the conversation, DATA and EXTRA begin a message
// (EXTRA goes on with the one before), BLOCK ends a question or its answer.
const (
	knotUnitEnd   = 0
	knotUnitData  = 1
	knotUnitExtra = 2
	knotUnitBlock = 3
)

// knotCommand has knotd carry out one command and returns its answer. A refusal is
// an error with its words.
func knotCommand(ctx context.Context, socket string, command knotItem) ([]knotItem, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write(knotMessage(command)); err != nil {
		return nil, err
	}
	items, err := parseKnot(bufio.NewReader(io.LimitReader(c, maxControl)))
	if err != nil {
		return nil, err
	}
	_, _ = c.Write([]byte{knotUnitEnd}) // a farewell: the answer is here
	for _, item := range items {
		if reason, refused := item[knotError]; refused {
			return nil, fmt.Errorf("%w: %s", errRefused, reason)
		}
	}
	return items, nil
}

// knotMessage is a question: one message and the end of a block. Texts stand in
// the order of their codes.
func knotMessage(item knotItem) []byte {
	b := []byte{knotUnitData}
	for f := knotCmd; f <= knotFilter; f++ {
		text, ok := item[f]
		if !ok {
			continue
		}
		b = binary.BigEndian.AppendUint16(append(b, byte(f)), uint16(len(text)))
		b = append(b, text...)
	}
	return append(b, knotUnitBlock)
}

// parseKnot reads messages until the end of a block.
func parseKnot(r *bufio.Reader) ([]knotItem, error) {
	var items []knotItem
	for {
		code, err := r.ReadByte()
		switch {
		case err != nil:
			return nil, fmt.Errorf("knotd's answer ends early: %w", err)
		case code == knotUnitBlock || code == knotUnitEnd:
			return items, nil
		case code == knotUnitData || code == knotUnitExtra:
			items = append(items, knotItem{})
			continue
		case len(items) == 0 || code < byte(knotCmd):
			return nil, fmt.Errorf("unreadable answer of knotd: unit %d", code)
		}
		var size [2]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return nil, fmt.Errorf("knotd's answer ends early: %w", err)
		}
		text := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, fmt.Errorf("knotd's answer ends early: %w", err)
		}
		items[len(items)-1][knotField(code)] = string(text)
	}
}
