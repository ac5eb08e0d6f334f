package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lvslab/lvslab/provider"
)

// markSpace is the XML namespace of the ownership mark in a domain's metadata.
const markSpace = "https://github.com/lvslab/lvslab/mark/1"

// mark says whose a domain is. Started is the time of its start, RFC 3339,
// which libvirt does not keep; Template is the key of the template that it is a
// clone of, "" when it was booted.
type mark struct {
	Lineage string `xml:"lineage,attr"`
	Address string `xml:"address,attr"`
	Started string `xml:"started,attr"`

	Template string `xml:"template,attr"`
	// Dir is the lab's directory; "" = two above the console.
	Dir string `xml:"dir,attr"`
}

// encode writes the element with a prefix: libvirt keeps only prefixed ones.
func (m mark) encode() string {
	more := ""
	if m.Template != "" {
		more = fmt.Sprintf(` template="%s"`, escape(m.Template))
	}
	if m.Dir != "" {
		more += fmt.Sprintf(` dir="%s"`, escape(m.Dir))
	}
	return fmt.Sprintf(`<lvslab:lab xmlns:lvslab="%s" lineage="%s" address="%s" started="%s"%s></lvslab:lab>`,
		markSpace, escape(m.Lineage), escape(m.Address), escape(m.Started), more)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// findMark returns the mark in the inner XML of a metadata element, and
// whether there is one.
func findMark(metadata string) (mark, bool, error) {
	dec := xml.NewDecoder(strings.NewReader(metadata))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return mark{}, false, nil
		}
		if err != nil {
			return mark{}, false, fmt.Errorf("metadata: %w", err)
		}
		start, ok := tok.(xml.StartElement)
		if !ok || start.Name != (xml.Name{Space: markSpace, Local: "lab"}) {
			continue
		}
		var m mark
		if err := dec.DecodeElement(&m, &start); err != nil {
			return mark{}, false, fmt.Errorf("metadata: %w", err)
		}
		return m, true, nil
	}
}

// owner describes for people whose an object is.
func (m mark) owner(marked bool) string {
	if !marked {
		return "somebody who is not lvslab"
	}
	return fmt.Sprintf("%s of the lab with lineage %s", m.Address, m.Lineage)
}

// foreign is the error for an object that has our name and not our mark.
func foreign(what, name, owner string) error {
	return fmt.Errorf("%w: %s %s belongs to %s", provider.ErrForeign, what, name, owner)
}
