package server

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvs"
)

func registerIPVS(s *Server) {
	d := &director{}
	Handle(s, proto.IPVSPreflight, func(ctx context.Context, needs proto.IPVSNeeds) (proto.IPVSInfo, error) {
		info, err := ipvs.Preflight(ctx, loadModule, needs)
		return info, ipvsError(err)
	})
	Handle(s, proto.IPVSApply, onDirector(d, (*ipvs.Handle).Apply))
	Handle(s, proto.IPVSFresh, onDirector(d, (*ipvs.Handle).Fresh))
	Handle(s, proto.IPVSSettled, onDirector(d, (*ipvs.Handle).Settled))
	Handle(s, proto.IPVSRead, onDirector(d, func(h *ipvs.Handle, ctx context.Context, _ proto.None) ([]proto.IPVSService, error) {
		return h.Services(ctx)
	}))
	Handle(s, proto.IPVSConns, onDirector(d, func(h *ipvs.Handle, ctx context.Context, _ proto.None) ([]proto.IPVSConn, error) {
		return h.Conns(ctx)
	}))
	Handle(s, proto.IPVSDelete, onDirector(d, func(h *ipvs.Handle, ctx context.Context, k proto.IPVSKey) (proto.None, error) {
		return proto.None{}, h.Delete(ctx, k)
	}))
}

// director keeps the one handle of the guest: what Fresh remembers about the
// run before must outlive a call.
type director struct {
	mu sync.Mutex
	h  *ipvs.Handle
}

// handle loads ip_vs and opens it at the first call.
func (d *director) handle(ctx context.Context) (*ipvs.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.h != nil {
		return d.h, nil
	}
	if _, err := ipvs.Preflight(ctx, loadModule, proto.IPVSNeeds{}); err != nil {
		return nil, err
	}
	h, err := ipvs.Open(ctx, loadModule)
	if err != nil {
		return nil, err
	}
	d.h = h
	return h, nil
}

// onDirector makes a handler of a method of the handle.
func onDirector[A, R any](d *director, f func(*ipvs.Handle, context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, args A) (R, error) {
		h, err := d.handle(ctx)
		if err != nil {
			var none R
			return none, ipvsError(err)
		}
		r, err := f(h, ctx, args)
		return r, ipvsError(err)
	}
}

// ipvsError gives the errors of package ipvs their codes.
func ipvsError(err error) error {
	var missing *ipvs.MissingModuleError
	var mismatch *ipvs.MismatchError
	var notEmpty *ipvs.TableNotEmptyError
	switch {
	case errors.As(err, &missing):
		return fail(proto.CodeUnsupported, strings.Join(missing.Modules, ", "), "%v", err)
	case errors.As(err, &mismatch):
		return fail(proto.CodeMismatch, mismatch.Subject, "%v", err)
	case errors.As(err, &notEmpty):
		return fail(proto.CodeTimeout, "ip_vs_conn", "%v", err)
	case errors.Is(err, ipvs.ErrNotFound):
		return fail(proto.CodeNotFound, "", "%v", err)
	case errors.Is(err, ipvs.ErrInvalid):
		return fail(proto.CodeInvalid, "", "%v", err)
	}
	return err
}
