package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerMasquerade(s *Server) {
	Handle(s, proto.MasqueradeApply, masqueradeApply)
	Handle(s, proto.MasqueradeRead, masqueradeRead)
	Handle(s, proto.MasqueradeDelete, func(ctx context.Context, ref proto.MasqueradeRef) (proto.None, error) {
		_, err := nft(ctx, masqueradeChain(ref)+fmt.Sprintf("delete chain %s %s\n", masqueradeTable, chainOf(ref)), "-f", "-")
		return proto.None{}, err
	})
	Handle(s, proto.MasqueradeForget, masqueradeForget)
}

// masqueradeTable is one of lvslab's own, so that marks and translations do not
// touch each other.
const masqueradeTable = "ip lvslab_nat"

func chainOf(ref proto.MasqueradeRef) string { return "by_" + ref.Dev }

// masqueradeChain makes the chain of a device, empty. It hooks in where sources
// are translated (nft(8), priority srcnat).
func masqueradeChain(ref proto.MasqueradeRef) string {
	return fmt.Sprintf("add table %[1]s\nadd chain %[1]s %[2]s { type nat hook postrouting priority 100; policy accept; }\nflush chain %[1]s %[2]s\n",
		masqueradeTable, chainOf(ref))
}

func masqueradeApply(ctx context.Context, ref proto.MasqueradeRef) (proto.MasqueradeState, error) {
	script := masqueradeChain(ref) + fmt.Sprintf("add rule %s %s oifname %q counter masquerade\n", masqueradeTable, chainOf(ref), ref.Dev)
	if _, err := nft(ctx, script, "-f", "-"); err != nil {
		return proto.MasqueradeState{}, err
	}
	have, err := masqueradeRead(ctx, ref)
	if err == nil && have.Other {
		err = fail(proto.CodeMismatch, ref.Dev, "masquerading reads back with other rules beside it")
	}
	return have, err
}

func masqueradeRead(ctx context.Context, ref proto.MasqueradeRef) (proto.MasqueradeState, error) {
	text, err := nft(ctx, "", "-j", "list", "ruleset")
	if err != nil {
		return proto.MasqueradeState{}, err
	}
	have, found, err := masqueraded([]byte(text), ref)
	if err == nil && !found {
		err = fail(proto.CodeNotFound, ref.Dev, "nothing masquerades what leaves by the device")
	}
	return have, err
}

// masqueradeForget empties the table of conntrack, of which translations are a part
// (nf_conntrack_netlink.c, ctnetlink_del_conntrack without attributes).
func masqueradeForget(ctx context.Context, _ proto.None) (proto.None, error) {
	if err := loadModule(ctx, "nf_conntrack_netlink"); err != nil {
		return proto.None{}, err
	}
	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return proto.None{}, fail(proto.CodeFailed, "conntrack", "emptying the table: %v", err)
	}
	return proto.None{}, nil
}

// natRule is a rule of the chain, as far as it is needed here.
type natRule struct {
	nftPlace
	Expr []struct {
		Match *struct {
			Op   string `json:"op"`
			Left struct {
				Meta struct {
					Key string `json:"key"`
				} `json:"meta"`
			} `json:"left"`
			Right json.RawMessage `json:"right"`
		} `json:"match"`
		Counter *struct {
			Packets uint64 `json:"packets"`
		} `json:"counter"`
		Masquerade json.RawMessage `json:"masquerade"` // null
	} `json:"expr"`
}

// masqueraded reads a ruleset, as nft -j lists it. found says whether the very
// rule of [masqueradeApply] is there.
func masqueraded(ruleset []byte, ref proto.MasqueradeRef) (have proto.MasqueradeState, found bool, err error) {
	var all struct {
		Objects []struct {
			Rule *natRule `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(ruleset, &all); err != nil {
		return have, false, fmt.Errorf("reading the ruleset: %w", err)
	}
	have.MasqueradeRef = ref
	for _, o := range all.Objects {
		if o.Rule == nil || o.Rule.Family+" "+o.Rule.Table != masqueradeTable || o.Rule.Chain != chainOf(ref) {
			continue
		}
		if flows, ok := o.Rule.ours(ref.Dev); ok && !found {
			have.Flows, found = flows, true
		} else {
			have.Other = true
		}
	}
	return have, found, nil
}

func (r *natRule) ours(dev string) (flows uint64, ok bool) {
	if len(r.Expr) != 3 || r.Expr[0].Match == nil || r.Expr[1].Counter == nil || r.Expr[2].Masquerade == nil {
		return 0, false
	}
	m := r.Expr[0].Match
	var by string
	if err := json.Unmarshal(m.Right, &by); err != nil {
		return 0, false
	}
	return r.Expr[1].Counter.Packets, m.Op == "==" && m.Left.Meta.Key == "oifname" && by == dev
}
