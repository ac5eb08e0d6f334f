package picture_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/picture"
	"github.com/lvslab/lvslab/internal/topo"
)

func resolved(t *testing.T, text string) *lang.Topology {
	t.Helper()
	c, ds := lang.Parse(lang.BuiltinSource("drawn", []byte(text)))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	sk, ds := c.Skeleton(lang.Inputs{})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	addresses, ds := topo.Assign(sk, nil)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	tp, ds := c.Resolve(sk, addresses)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	return tp
}

const network = `
network "lan" {
  cidr = "198.18.0.0/24"
  impair { loss = 0.01 }
}
`

// lab has what can be drawn and is in no builtin topology, or in one alone.
const lab = network + `
client "c" {
  addresses = 5
  nic { network = network.lan }
}
director "lb" {
  nic { network = network.lan }
}
backend "ns" {
  for_each = { "a<b&c" = 3, "a-name-that-is-far-too-long-to-be-drawn" = 1 }
  serves   = [zone.lab]
  nic {
    network = network.lan
    impair {
      delay = "20ms"
      rate  = "10mbit"
    }
  }
}
zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}
service "dns" {
  director = director.lb
  vips     = ["198.18.0.101", "198.18.0.102", "198.18.0.103", "198.18.0.104", "198.18.0.105"]
  forward  = "direct"
  real_server {
    backends = backend.ns
    weight   = 3
  }
}
`

func TestWhatIsDrawn(t *testing.T) {
	svg := picture.SVG(resolved(t, lab))
	for _, want := range []string{
		">lan 198.18.0.0/24, loss 1%<", "<title>network.lan 198.18.0.0/24</title>",
		">198.18.0.128 +4<", ">VIP 198.18.0.103<", ">+2 VIPs<", ">weight 3<", ">delay 20ms 10 Mbit/s<",
		">ns[&#34;a&lt;b&amp;c&#34;]<", "<title>backend.ns[&#34;a-name-that-is-far-too-long-to-be-drawn&#34;]</title>", "…</text>",
		">dns: 198.18.0.101 +4 port 53 udp,", "→ backend.ns[&#34;a&lt;b&amp;c&#34;], direct</title>",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("there should be %s in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, ">VIP 198.18.0.104<") {
		t.Error("a fourth VIP is drawn")
	}
	for range 5 {
		if picture.SVG(resolved(t, lab)) != svg {
			t.Fatal("the same topology gives two pictures")
		}
	}
}

// TestInside: the picture is XML, all is inside of what is shown, and its letters can
// be read; also of labs that lack a column, or everything.
func TestInside(t *testing.T) {
	for name, text := range map[string]string{
		"all":      lab,
		"nothing":  "",
		"network":  network,
		"client":   network + "client \"c\" {\n nic { network = network.lan }\n}",
		"backends": network + "backend \"b\" {\n count = 20\n nic { network = network.lan }\n}",
	} {
		t.Run(name, func(t *testing.T) {
			svg := picture.SVG(resolved(t, text))
			var width, height float64
			texts := 0
			for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
				token, err := dec.Token()
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v in\n%s", err, svg)
				}
				e, ok := token.(xml.StartElement)
				if !ok {
					continue
				}
				at := map[string]float64{}
				for _, a := range e.Attr {
					var v float64
					if _, err := fmt.Sscan(a.Value, &v); err == nil {
						at[a.Name.Local] = v
					}
				}
				if e.Name.Local == "svg" {
					width, height = at["width"], at["height"]
					continue
				}
				if e.Name.Local == "text" {
					texts++
				}
				if at["x"] < 0 || at["y"] < 0 || at["x"] > width || at["y"] > height {
					t.Errorf("%s at %v is outside of %v × %v", e.Name.Local, at, width, height)
				}
				if e.Name.Local == "rect" && at["x"] > 0 && (at["x"]+at["width"] > width || at["y"]+at["height"] > height) {
					t.Errorf("a box %v is not inside of %v × %v", at, width, height)
				}
			}
			if width < 320 || height <= 0 || strings.Count(svg, "<desc>") != 1 {
				t.Errorf("%v × %v:\n%s", width, height, svg)
			}
			if (texts == 0) != (text == "") {
				t.Errorf("%d texts", texts)
			}
		})
	}
}
