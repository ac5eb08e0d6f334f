package schema

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/provider"
)

func full() map[string]any {
	return map[string]any{
		TypeNetwork: Network{Name: "lab-lan", UUID: "u", Bridge: "lv0", Address: "network.lan", Lineage: "l", MTU: 1500},
		TypeDomain: Domain{Name: "n", UUID: "u", Address: "backend.ns[0]", Lineage: "l", Memory: 256 << 20, VCPUs: 1,
			Kernel: "/k", Initrd: "/i", Cmdline: "c", Root: "/r", Accelerator: "tcg", Console: "/c",
			NICs: []NIC{{Network: "lab-lan", MAC: "52:54:00:00:00:01"}}, ID: 3, PID: 77, Started: "2026-12-01T00:00:00Z", Template: "0123456789abcdef",
			Disk: "/home/me/mine.qcow2", DiskFormat: "qcow2", DiskSum: "0123456789abcdef0123", Seed: "/cache/seeds/0123456789abcdef.iso"},
		TypeLink: Link{Node: "n", MAC: "m", Name: "lan", MTU: 1500, Addresses: []string{"198.18.0.30/24"},
			Impair: &Impair{DelayUS: 2000, JitterUS: 1, LossPPM: 100000, DuplicatePPM: 2, ReorderPPM: 3, RateBits: 1e9, Limit: 5}, BootID: "b"},
		TypeSysctl: Sysctl{Node: "n", Values: map[string]string{"net.ipv4.ip_forward": "0"}, BootID: "b"},
		TypeRoute:  Route{Node: "n", To: "198.19.0.0/24", Via: "198.18.0.1", Dev: "lan", BootID: "b"},
		TypeTunnel: Tunnel{Node: "n", Name: "t", Type: "gue", Local: "198.18.0.30", Remote: "198.18.0.20", Port: 6080,
			Checksum: "full", Addresses: []string{"198.18.0.101/32"}, MTU: 1480, BootID: "b"},
		TypeDNS: DNS{Node: "n", Server: "nsd", ServerID: "backend.ns[0]", Zones: map[string]string{"lab.test": "text"},
			Listen: []string{"198.18.0.30"}, Version: "9.18", BootID: "b"},
		TypeMark:       Mark{Node: "n", Mark: 7, IPv6: true, Targets: []string{"udp [fd00::5]:53"}, BootID: "b"},
		TypeMasquerade: Masquerade{Node: "n", Dev: "lan", Other: true, BootID: "b"},
		TypeIPVS: IPVS{Node: "n", Sysctl: map[string]string{"net.ipv4.vs.conntrack": "0"}, BootID: "b",
			Services: []IPVSService{{Protocol: "udp", VIP: "198.18.0.101", Port: 53, FWMark: 1, IPv6: true, Scheduler: "rr",
				OnePacket: true, Flags: []string{"sh-port"}, PersistenceS: 300, Netmask: 32, Timeouts: IPVSTimeouts{1, 2, 3},
				Destinations: []IPVSDestination{{"198.18.0.30", 53, "tunnel", 1, 2, 1, "gre", 9, "full"}}}}},
	}
}

// values pairs each type's struct with its two conversions.
func convert(t *testing.T, v any) (cty.Value, any) {
	t.Helper()
	var out any
	var err error
	var val cty.Value
	switch s := v.(type) {
	case Network:
		val = s.Value()
		out, err = NetworkFrom(val)
	case Domain:
		val = s.Value()
		out, err = DomainFrom(val)
	case Link:
		val = s.Value()
		out, err = LinkFrom(val)
	case Sysctl:
		val = s.Value()
		out, err = SysctlFrom(val)
	case Route:
		val = s.Value()
		out, err = RouteFrom(val)
	case Tunnel:
		val = s.Value()
		out, err = TunnelFrom(val)
	case DNS:
		val = s.Value()
		out, err = DNSFrom(val)
	case Masquerade:
		val = s.Value()
		out, err = MasqueradeFrom(val)
	case Mark:
		val = s.Value()
		out, err = MarkFrom(val)
	case IPVS:
		val = s.Value()
		out, err = IPVSFrom(val)
	default:
		t.Fatalf("no conversion for %T", v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return val, out
}

func TestRoundTrip(t *testing.T) {
	samples := full()
	for typ, s := range All() {
		t.Run(typ, func(t *testing.T) {
			in, ok := samples[typ]
			if !ok {
				t.Fatalf("no sample of %s", typ)
			}
			for i := range reflect.ValueOf(in).NumField() {
				if reflect.ValueOf(in).Field(i).IsZero() {
					t.Errorf("sample leaves %s at zero", reflect.TypeOf(in).Field(i).Name)
				}
			}
			val, out := convert(t, in)
			if diff := cmp.Diff(in, out); diff != "" {
				t.Errorf("value and back: %s", diff)
			}
			if !val.Type().Equals(s.Type()) {
				t.Errorf("type %#v, want %#v", val.Type(), s.Type())
			}
			// The state is JSON: what comes back from it must compare equal,
			// or each plan would see a change.
			raw, err := ctyjson.Marshal(val, s.Type())
			if err != nil {
				t.Fatal(err)
			}
			back, err := ctyjson.Unmarshal(raw, s.Type())
			if err != nil {
				t.Fatal(err)
			}
			if !back.RawEquals(val) {
				t.Errorf("differs after JSON:\n%#v\n%#v", back, val)
			}
		})
	}
}

func TestZeroIsCanonical(t *testing.T) {
	for typ, sample := range full() {
		s := All()[typ]
		val, _ := convert(t, reflect.Zero(reflect.TypeOf(sample)).Interface())
		for name, a := range s.Attributes {
			got := val.GetAttr(name)
			switch {
			case a.Computed && !got.IsNull():
				t.Errorf("%s.%s: computed zero is %#v, want null", typ, name, got)
			case !a.Computed && got.IsNull() && !a.Type.IsObjectType():
				t.Errorf("%s.%s: null, want a zero value", typ, name)
			}
		}
	}
}

func TestEmptyAndNilListsAreTheSame(t *testing.T) {
	a := IPVS{Services: []IPVSService{{Flags: nil}}}.Value()
	b := IPVS{Services: []IPVSService{{Flags: []string{}, Destinations: []IPVSDestination{}}}, Sysctl: map[string]string{}}.Value()
	if !a.RawEquals(b) {
		t.Errorf("%#v\n%#v", a, b)
	}
}

func TestDecodeToleratesAnOlderState(t *testing.T) {
	got, err := LinkFrom(cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("lan"), "mtu": cty.NullVal(cty.Number), "unheard_of": cty.True}))
	if err != nil || got.Name != "lan" || got.MTU != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := LinkFrom(cty.NullVal(LinkSchema.Type())); err == nil {
		t.Error("a null object was accepted")
	}
	if _, err := LinkFrom(cty.ObjectVal(map[string]cty.Value{"mtu": cty.StringVal("x")})); err == nil {
		t.Error("a text was accepted as MTU")
	}
}

func TestGuestTypesCarryNodeAndBoot(t *testing.T) {
	for typ, s := range Guest() {
		if s.Attributes["node"].Type != cty.String || !s.Attributes["boot_id"].Computed {
			t.Errorf("%s lacks node or a computed boot_id", typ)
		}
	}
	for typ, s := range All() {
		if s.Noun == "" {
			t.Errorf("%s has no noun", typ)
		}
		for name, a := range s.Attributes {
			if a.Doc == "" {
				t.Errorf("%s.%s has no doc", typ, name)
			}
		}
	}
}

func TestPlanBySchemaSeesNoChangeAgainstReadBack(t *testing.T) {
	want := Link{Node: "n", Name: "lan", Addresses: []string{"198.18.0.30/24"}}
	have := want
	have.BootID = "b"
	p := provider.PlanBySchema(LinkSchema, provider.Resource{Attrs: want.Value()}, have.Value())
	if p.Action != provider.NoOp {
		t.Errorf("%+v", p)
	}
}
