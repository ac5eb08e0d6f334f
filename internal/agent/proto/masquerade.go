package proto

// Calls about a router's masquerading: what it forwards by one of its devices gets
// the address of that device. Each write is read back before it returns.
var (
	MasqueradeApply  = Call[MasqueradeRef, MasqueradeState]{"masquerade.apply"}
	MasqueradeRead   = Call[MasqueradeRef, MasqueradeState]{"masquerade.read"}
	MasqueradeDelete = Call[MasqueradeRef, None]{"masquerade.delete"} // one that is not there is no error
	// MasqueradeForget ends all flows that the router remembers: the next packet of
	// each is translated as if it were the first.
	MasqueradeForget = Call[None, None]{"masquerade.forget"}
)

// MasqueradeRef names the device by which packets leave with its own address.
type MasqueradeRef struct {
	Dev string `json:"dev"`
}

// MasqueradeState is the rule as it is.
type MasqueradeState struct {
	MasqueradeRef
	// Other says that rules are beside it which are none of lvslab's.
	Other bool `json:"other,omitempty"`
	// Flows is how many were translated since the rule was made: only the first
	// packet of a flow meets it (nf_nat_core.c, nf_nat_inet_fn).
	Flows uint64 `json:"flows,omitempty"`
}
