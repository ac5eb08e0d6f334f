package load

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func ofClients() ([]Query, []Client) {
	a, b, c := netip.MustParseAddr("198.18.0.128"), netip.MustParseAddr("198.18.0.129"), netip.MustParseAddr("198.18.0.130")
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	query := func(from netip.Addr, ms int, o Outcome, latency time.Duration, backend string) Query {
		return Query{Client: from, Port: 40000, Time: at.Add(time.Duration(ms) * time.Millisecond), Outcome: o, Latency: latency, Backend: backend}
	}
	zero, late := 0.0, 0.25
	return []Query{
			query(a, 0, OK, time.Millisecond, "backend.ns[1]"), query(b, 1, OK, 3*time.Millisecond, "backend.ns[0]"),
			query(a, 2, BadRcode, time.Millisecond, ""), query(c, 3, Unanswered, 0, ""), query(b, 4, OK, 5*time.Millisecond, "backend.ns[1]"),
		}, []Client{
			{Name: "client.c[0]", Addresses: []netip.Addr{a, b}, StartedS: &zero},
			{Name: "client.c[1]", Addresses: []netip.Addr{c}, StartedS: &late},
			{Name: "client.c[2]", Addresses: []netip.Addr{netip.MustParseAddr("198.18.0.131")}},
		}
}

func TestClients(t *testing.T) {
	queries, clients := ofClients()
	rows := PerClient(queries, clients, 5*time.Second)
	var b bytes.Buffer
	if err := WriteClients(&b, rows); err != nil {
		t.Fatal(err)
	}
	want := strings.Join(clientColumns, ",") + `
client.c[0],198.18.0.128;198.18.0.129,0.000000,4,3,1,0,0.008000,0.008000,0.003000,2,backend.ns[0]=1;backend.ns[1]=2
client.c[1],198.18.0.130,0.250000,1,0,0,1,,5.000000,,1,
client.c[2],198.18.0.131,,0,0,0,0,,,,0,
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	back, cells, err := ReadClients(&b)
	if err != nil || len(back) != 3 || len(back[0].Addresses) != 2 {
		t.Fatalf("%v %+v", err, back)
	}
	for i, r := range rows {
		if column, _ := r.Differs(cells[i]); column != "" {
			t.Errorf("row %d differs in %s", i, column)
		}
	}
	cells[0][4] = "4"
	if column, is := rows[0].Differs(cells[0]); column != "answers_ok" || is != "3" {
		t.Errorf("%s %s", column, is)
	}
}

func FuzzReadClients(f *testing.F) {
	head := strings.Join(clientColumns, ",") + "\n"
	f.Add(head + "client.c,198.18.0.1,,0,0,0,0,,,,0,\n")
	f.Add(head + "client.c,198.18.0.1;x,,0,0,0,0,,,,0,\n")
	f.Add(head + ",,,,,,,,,,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		clients, cells, err := ReadClients(strings.NewReader(text))
		if len(clients) != len(cells) {
			t.Fatalf("%d clients, %d rows", len(clients), len(cells))
		}
		for _, c := range clients {
			if err == nil && (c.Name == "" || len(c.Addresses) == 0) {
				t.Errorf("%+v", c)
			}
		}
	})
}
