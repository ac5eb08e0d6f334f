package server

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// nftObject is one of libnftables-json(5), as far as it is needed here.
type nftObject struct {
	Chain *nftPlace `json:"chain"`
	Rule  *struct {
		nftPlace
		Expr []nftExpr `json:"expr"`
	} `json:"rule"`
}

// nftPlace is where a rule stands; a chain has its name in Name.
type nftPlace struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Chain  string `json:"chain"`
	Name   string `json:"name"`
}

type nftExpr struct {
	Match *struct {
		Op   string `json:"op"`
		Left struct {
			Payload struct {
				Protocol string `json:"protocol"`
				Field    string `json:"field"`
			} `json:"payload"`
		} `json:"left"`
		Right json.RawMessage `json:"right"`
	} `json:"match"`
	Counter *struct {
		Packets uint64 `json:"packets"`
	} `json:"counter"`
	Mangle *struct {
		Key struct {
			Meta struct {
				Key string `json:"key"`
			} `json:"meta"`
		} `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"mangle"`
}

// marked reads what a ruleset, as nft -j lists it, puts a mark on. A rule in the
// mark's chain that is none of [markScript] is a target without a protocol.
// found says whether there is a chain for the mark.
func marked(ruleset []byte, ref proto.MarkRef) (targets []proto.MarkTarget, found bool, err error) {
	var all struct {
		Objects []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(ruleset, &all); err != nil {
		return nil, false, fmt.Errorf("reading the ruleset: %w", err)
	}
	family, table, _ := strings.Cut(markTable(ref), " ")
	at := func(p nftPlace, chain string) bool {
		return p.Family == family && p.Table == table && chain == markChain(ref)
	}
	for _, o := range all.Objects {
		switch {
		case o.Chain != nil && at(*o.Chain, o.Chain.Name):
			found = true
		case o.Rule != nil && at(o.Rule.nftPlace, o.Rule.Chain):
			targets = append(targets, markTarget(o.Rule.Expr, ref.Mark))
		}
	}
	return targets, found, nil
}

func markTarget(rule []nftExpr, mark uint32) (t proto.MarkTarget) {
	var addr netip.Addr
	var port, value uint32
	counted := uint64(0)
	for _, e := range rule {
		switch {
		case e.Match != nil && e.Match.Op == "==" && e.Match.Left.Payload.Field == "daddr":
			_ = json.Unmarshal(e.Match.Right, &addr) // what cannot be read leaves it invalid
		case e.Match != nil && e.Match.Op == "==" && e.Match.Left.Payload.Field == "dport":
			t.Protocol = e.Match.Left.Payload.Protocol
			_ = json.Unmarshal(e.Match.Right, &port)
		case e.Counter != nil:
			counted = e.Counter.Packets
		case e.Mangle != nil && e.Mangle.Key.Meta.Key == "mark":
			_ = json.Unmarshal(e.Mangle.Value, &value)
		default:
			return proto.MarkTarget{}
		}
	}
	if !addr.IsValid() || port == 0 || port > 65535 || value != mark {
		return proto.MarkTarget{}
	}
	t.At, t.Packets = netip.AddrPortFrom(addr, uint16(port)), counted
	return t
}
