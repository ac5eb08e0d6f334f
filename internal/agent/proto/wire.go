package proto

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// MaxLine bounds a line of the first contact, bytes. An Enrol is about 1 KiB.
const MaxLine = 16 << 10

// WriteLine sends v as one line of JSON. A line feed goes before it too: it
// ends whatever an earlier client of the port left unfinished.
func WriteLine(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line := make([]byte, 0, len(body)+2)
	line = append(line, '\n')
	line = append(line, body...)
	_, err = w.Write(append(line, '\n'))
	return err
}

// ReadLine returns the next line without its line feed. A line longer than
// MaxLine is left-over binary data: it is thrown away and returned as empty.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= MaxLine {
			line = append(line, part...)
		}
		switch {
		case err == nil && len(line) > MaxLine:
			return nil, nil
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// ParseHello recognises a Hello; anything else is left over from somebody.
func ParseHello(line []byte) (Hello, bool) {
	var h Hello
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &h) != nil {
		return Hello{}, false
	}
	return h, h.Protocol > 0 && h.Nonce != ""
}

// ParseEnrol recognises an Enrol.
func ParseEnrol(line []byte) (Enrol, bool) {
	var e Enrol
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return Enrol{}, false
	}
	return e, len(e.HostKey) > 0 && e.Node != ""
}

// ParseEnrolled recognises an Enrolled.
func ParseEnrolled(line []byte) (Enrolled, bool) {
	var e Enrolled
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return Enrolled{}, false
	}
	return e, e.Agent != "" || e.Error != ""
}
