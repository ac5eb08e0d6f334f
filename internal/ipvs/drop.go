package ipvs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// drop deletes a service together with its entries: with expire_nodest_conn=1
// the kernel (5.9 or newer) walks the table when a real server goes. It waits
// until the entries are gone; those of a service by firewall mark cannot be told
// from others and are not waited for.
func (h *Handle) drop(ctx context.Context, key proto.IPVSKey) (err error) {
	before, err := h.k.sysctls()
	if err != nil {
		return err
	}
	if old, ok := before[nodest]; ok && old != "1" {
		if err := h.sysctl(nodest, "1"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.sysctl(nodest, old)) }()
	}
	if err := h.k.delService(key); err != nil {
		return err
	}
	at := netip.AddrPortFrom(key.VIP, key.Port)
	for deadline := time.Now().Add(defaultEmpty); key.FWMark == 0; {
		rows, err := h.k.conns()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rows, func(c proto.IPVSConn) bool { return c.Virtual == at && c.Protocol == key.Protocol })
		if i < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return &TableNotEmptyError{Rows: len(rows), Example: rowText(rows[i])}
		}
		if err := h.wait(ctx, tablePoll); err != nil {
			return err
		}
	}
	return nil
}
