package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// prepareWithin bounds a preparation. named starts in 1 s under emulation.
const prepareWithin = 30 * time.Second

// prepare starts what a template shall have running.
func (s *Server) prepare(p proto.Prepare) proto.Prepared {
	ctx, cancel := context.WithTimeout(s.life, prepareWithin)
	defer cancel()
	answer := proto.Prepared{Started: []string{}}
	for _, name := range p.Start {
		start, ok := s.preparations[name]
		switch {
		case s.identity() != nil:
			answer.Error = "the guest has an identity already"
		case !ok:
			answer.Error = fmt.Sprintf("this agent (lvslab %s) cannot prepare %q", s.version, name)
		default:
			if err := start(ctx); err != nil {
				answer.Error = fmt.Sprintf("%s: %v", name, err)
			}
		}
		if answer.Error != "" {
			break
		}
		answer.Started = append(answer.Started, name)
	}
	return answer
}

// adoptCard gives the card of a clone its address. A guest that was booted has
// no card with the template's.
func adoptCard(mac string) error {
	if mac == "" {
		return nil
	}
	own, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return err
	}
	for _, l := range links {
		if strings.EqualFold(l.Attrs().HardwareAddr.String(), proto.TemplateMAC) {
			return netlink.LinkSetHardwareAddr(l, own)
		}
	}
	return nil
}
