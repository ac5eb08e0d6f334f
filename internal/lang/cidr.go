package lang

import (
	"fmt"
	"math/big"
	"net/netip"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// The CIDR functions have Terraform's names, arguments and results.

var cidrHostFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}, {Name: "hostnum", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := prefixArg(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		n, acc := args[1].AsBigFloat().Int(nil)
		if acc != big.Exact {
			return cty.NilVal, function.NewArgErrorf(1, "a whole number is required")
		}
		size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
		if n.Sign() < 0 { // counts from the end, -1 is the last address
			n.Add(n, size)
		}
		if n.Sign() < 0 || n.Cmp(size) >= 0 {
			return cty.NilVal, function.NewArgErrorf(1, "%s has %s addresses only", p, size)
		}
		return cty.StringVal(plus(p.Addr(), n).String()), nil
	},
})

var cidrNetmaskFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := prefixArg(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		if !p.Addr().Is4() {
			return cty.NilVal, function.NewArgErrorf(0, "only IPv4 prefixes have a netmask")
		}
		m := ^uint32(0)
		if p.Bits() < 32 {
			m = ^(m >> p.Bits())
		}
		return cty.StringVal(netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).String()), nil
	},
})

var cidrSubnetFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}, {Name: "newbits", Type: cty.Number}, {Name: "netnum", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := prefixArg(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		bits, err := newBits(p, args[1], 1)
		if err != nil {
			return cty.NilVal, err
		}
		n, acc := args[2].AsBigFloat().Int(nil)
		if acc != big.Exact || n.Sign() < 0 || n.BitLen() > bits-p.Bits() {
			return cty.NilVal, function.NewArgErrorf(2, "%s bits number the subnets 0 to %s", args[1].AsBigFloat().String(),
				new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits-p.Bits())), big.NewInt(1)))
		}
		n.Lsh(n, uint(p.Addr().BitLen()-bits))
		return cty.StringVal(netip.PrefixFrom(plus(p.Addr(), n), bits).String()), nil
	},
})

var cidrSubnetsFunc = function.New(&function.Spec{
	Params:   []function.Parameter{{Name: "prefix", Type: cty.String}},
	VarParam: &function.Parameter{Name: "newbits", Type: cty.Number},
	Type:     function.StaticReturnType(cty.List(cty.String)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := prefixArg(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		if len(args) == 1 {
			return cty.ListValEmpty(cty.String), nil
		}
		var out []cty.Value
		width := p.Addr().BitLen()
		at, size := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(width-p.Bits()))
		for i, a := range args[1:] {
			bits, err := newBits(p, a, i+1)
			if err != nil {
				return cty.NilVal, err
			}
			step := new(big.Int).Lsh(big.NewInt(1), uint(width-bits))
			if rest := new(big.Int).Mod(at, step); rest.Sign() != 0 { // a larger one starts at its own boundary
				at.Add(at, new(big.Int).Sub(step, rest))
			}
			if new(big.Int).Add(at, step).Cmp(size) > 0 {
				return cty.NilVal, function.NewArgErrorf(i+1, "%s has no room left for a subnet with %d more bits", p, bits-p.Bits())
			}
			out = append(out, cty.StringVal(netip.PrefixFrom(plus(p.Addr(), at), bits).String()))
			at.Add(at, step)
		}
		return cty.ListVal(out), nil
	},
})

func prefixArg(v cty.Value) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v.AsString())
	if err != nil {
		return p, function.NewArgErrorf(0, "%q is not a prefix like 198.18.0.0/24", v.AsString())
	}
	return p.Masked(), nil
}

func newBits(p netip.Prefix, v cty.Value, arg int) (int, error) {
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < 0 || n > int64(p.Addr().BitLen()-p.Bits()) {
		return 0, function.NewArgErrorf(arg, "%s can be extended by 0 to %d bits", p, p.Addr().BitLen()-p.Bits())
	}
	return p.Bits() + int(n), nil
}

// plus adds a number to an address; the sum is inside its prefix by the caller's checks.
func plus(a netip.Addr, n *big.Int) netip.Addr {
	b := a.AsSlice()
	sum := new(big.Int).Add(new(big.Int).SetBytes(b), n)
	out, ok := netip.AddrFromSlice(sum.FillBytes(b))
	if !ok {
		panic(fmt.Sprintf("lang: %v + %v is no address", a, n)) // FillBytes keeps the length
	}
	return out
}
