package guest

import (
	"errors"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// explain makes a diagnostic of a guest's error: what could not be done, to
// what, and what to do about it. Errors that are none of the guest's pass.
func explain(r provider.Resource, err error) error {
	if err == nil {
		return nil
	}
	var e *proto.Error
	if !errors.As(err, &e) {
		if errors.Is(err, client.ErrLost) {
			return diag.Fail(err, "The connection to "+r.Addr.Noun.String()+" was lost",
				"Look at the machine's console with `lvslab logs`, then apply again.", "it ended while %s was being set", r.Addr)
		}
		return err
	}
	summary, remedy := advice(r, e)
	f := diag.Fail(diag.Told(err), summary, remedy, "%s", e.Message)
	f.Diagnostic = f.Diagnostic.For(r.Addr.String())
	if r.Range != nil {
		f.Diagnostic = f.Diagnostic.At(*r.Range)
	}
	return f
}

// logOf is where the agent keeps the log of the name server.
func logOf(r provider.Resource) string {
	d, err := schema.DNSFrom(r.Attrs)
	if err != nil {
		return "/run/lvslab"
	}
	return "/run/lvslab/" + proto.ServerProgram(d.Server) + ".log"
}

func advice(r provider.Resource, e *proto.Error) (summary, remedy string) {
	noun := schema.Guest()[r.Type].Noun
	switch {
	case e.Code == proto.CodeUnsupported:
		return "The guest lacks " + e.Subject, "Use an image whose kernel and packages have it, or another setting."
	case e.Code == proto.CodeInvalid && r.Type == schema.TypeDNS:
		return "The name server refuses zone " + e.Subject, "Correct the record that the message names."
	case e.Code == proto.CodeInvalid:
		return "The guest can't set the " + noun, "Correct the value that the message names."
	case e.Code == proto.CodeMismatch:
		return "The " + noun + " reads back differently from what was set",
			"Apply again. If it stays so, the guest's kernel does not do what it was told: please report it."
	case e.Code == proto.CodeTimeout && r.Type == schema.TypeDNS:
		return "The name server does not answer", "Look at its log with `lvslab exec` in the guest: " + logOf(r) + "."
	case e.Code == proto.CodeTimeout:
		return "Setting the " + noun + " took too long", "Apply again. Under emulation on a busy machine give it fewer labs at once."
	}
	return "Setting the " + noun + " failed", "Apply again. The machine's console may say more: `lvslab logs`."
}
