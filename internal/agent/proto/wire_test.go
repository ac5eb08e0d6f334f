package proto

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLinesSurviveLeftovers(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("half a line of somebody")
	if err := WriteLine(&b, Hello{Protocol: 1, Nonce: "n1"}); err != nil {
		t.Fatal(err)
	}
	b.WriteString(strings.Repeat("\xff{", MaxLine) + "\n")
	if err := WriteLine(&b, Hello{Protocol: 1, Nonce: "n2", Enrolled: true, BootID: "b"}); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(&b, 16)
	var found []Hello
	for {
		line, err := ReadLine(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := ParseHello(line); ok {
			found = append(found, h)
		}
	}
	want := []Hello{{Protocol: 1, Nonce: "n1"}, {Protocol: 1, Nonce: "n2", Enrolled: true, BootID: "b"}}
	if !slices.Equal(found, want) {
		t.Errorf("found %+v, want %+v", found, want)
	}
}

func TestMessagesAreTold(t *testing.T) {
	for line, want := range map[string]string{
		`{"lvslab":2,"nonce":"x"}`:            "hello",
		`{"lvslab":0,"nonce":"x"}`:            "",
		`{"lvslab":2}`:                        "",
		`{"node":"a.b","host_key":"AA=="}`:    "enrol",
		`{"node":"a.b"}`:                      "",
		`{"agent":"1.0","kernel":"6.1"}`:      "enrolled",
		`{"agent":"","error":"no"}`:           "enrolled",
		`{"lvslab":2,"nonce":"x"`:             "",
		`[{"lvslab":2,"nonce":"x"}]`:          "",
		`SSH-2.0-x`:                           "",
		``:                                    "",
		`{"lvslab":"1","nonce":"x","y":null}`: "",
	} {
		got := ""
		if _, ok := ParseHello([]byte(line)); ok {
			got += "hello"
		}
		if _, ok := ParseEnrol([]byte(line)); ok {
			got += "enrol"
		}
		if _, ok := ParseEnrolled([]byte(line)); ok {
			got += "enrolled"
		}
		if got != want {
			t.Errorf("%s is taken for %q, want %q", line, got, want)
		}
	}
}

// FuzzReadLine: whatever comes before it, a line written by WriteLine is read,
// and no line is longer than allowed.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte("SSH-2.0-x\r\n\x00\x01"))
	f.Add([]byte("{\"lvslab\":1,\"nonce\":\"old\"}\n{"))
	f.Add(bytes.Repeat([]byte{'\n'}, 100))
	f.Add(bytes.Repeat([]byte{'x'}, 3*MaxLine))
	f.Fuzz(func(t *testing.T, junk []byte) {
		var b bytes.Buffer
		b.Write(junk)
		if err := WriteLine(&b, Hello{Protocol: 1, Nonce: "the one"}); err != nil {
			t.Fatal(err)
		}
		for r := bufio.NewReader(&b); ; {
			line, err := ReadLine(r)
			if err != nil {
				t.Fatal("the line was not found")
			}
			if len(line) > MaxLine {
				t.Fatalf("a line of %d bytes", len(line))
			}
			if h, ok := ParseHello(line); ok && h.Nonce == "the one" {
				return
			}
		}
	})
}

func TestKernelOrder(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"10.0.0.1/24 10.0.0.2/24":            "10.0.0.1/24 10.0.0.2/24",
		"10.0.0.1/24 10.0.0.2/24 9.9.9.9/32": "10.0.0.1/24 9.9.9.9/32 10.0.0.2/24",
		"fd00::2/64 10.0.0.1/24 fd00::1/64":  "10.0.0.1/24 fd00::1/64 fd00::2/64",
		"10.0.0.1/24 10.0.0.2/25":            "10.0.0.1/24 10.0.0.2/25",
	} {
		var list, expect []netip.Prefix
		for s := range strings.FieldsSeq(in) {
			list = append(list, netip.MustParsePrefix(s))
		}
		for s := range strings.FieldsSeq(want) {
			expect = append(expect, netip.MustParsePrefix(s))
		}
		if got := KernelOrder(list); !slices.Equal(got, expect) {
			t.Errorf("%s is listed as %v, want %s", in, got, want)
		}
	}
}

// TestKernelOrderIsStable: listing what the kernel lists changes nothing.
func TestKernelOrderIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := netip.AddrFrom4([4]byte{10, 0, rapid.ByteMax(2).Draw(t, "c"), rapid.Byte().Draw(t, "d")})
			return netip.PrefixFrom(a, rapid.SampledFrom([]int{16, 24, 32}).Draw(t, "bits"))
		}), 0, 8).Draw(t, "list")
		once := KernelOrder(list)
		if twice := KernelOrder(once); !slices.Equal(once, twice) {
			t.Fatalf("%v becomes %v", once, twice)
		}
		if len(once) != len(list) {
			t.Fatalf("%d of %d addresses left", len(once), len(list))
		}
	})
}
