package ipvsmodel

import "time"

// The states of a TCP entry, in the kernel's order (include/net/ip_vs.h).
const (
	tcpNone uint8 = iota
	tcpEstablished
	tcpSynSent
	tcpSynRecv
	tcpFinWait
	tcpTimeWait
	tcpClose
	tcpCloseWait
	tcpLastAck
	tcpListen
	tcpSynAck
	tcpLast
)

var tcpNames = [tcpLast]string{"NONE", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "SYNACK"}

// tcpTimeouts are how long an entry stays in a state without a packet; those of
// ESTABLISHED and FIN_WAIT can be set (ip_vs_proto_tcp.c).
var tcpTimeouts = [tcpLast]time.Duration{
	2 * time.Second, 15 * time.Minute, 2 * time.Minute, time.Minute, 2 * time.Minute, 2 * time.Minute,
	10 * time.Second, time.Minute, 30 * time.Second, 2 * time.Minute, 2 * time.Minute,
}

// tcpActive are the states that count as active connections.
var tcpActive = [tcpLast]bool{tcpEstablished: true, tcpSynSent: true, tcpSynRecv: true, tcpSynAck: true}

// tcpNext is the state after a segment: by what the director sees of the flow,
// the segment, and the state before (ip_vs_proto_tcp.c, set_tcp_state). Each
// row of text lists the next states in the order of the states before.
var tcpNext = [3][4][tcpLast]uint8{
	{ // from the client, the server's half is seen too
		row("sr es es sr sr sr sr sr sr sr sr"), // SYN
		row("cl cw ss tw tw tw cl cw la li tw"), // FIN
		row("es es ss es fw tw cl cw cl li es"), // ACK
		row("cl cl cl sr cl cl cl cl la li sr"), // RST
	},
	{ // from the server
		row("ss es ss sr ss ss ss ss ss li sr"),
		row("tw fw ss tw fw tw cl tw la li tw"),
		row("es es ss es fw tw cl cw la es es"),
		row("cl cl ss cl cl tw cl cl cl cl cl"),
	},
	{ // from the client, the server answers past the director
		row("sr es es sr sr sr sr sr sr sr sr"),
		row("cl fw ss tw fw tw cl cw la li tw"),
		row("es es ss es fw tw cl cw cl li es"),
		row("cl cl cl sr cl cl cl cl la li cl"),
	},
}

// row reads two letters a state.
func row(text string) (out [tcpLast]uint8) {
	letters := map[string]uint8{
		"no": tcpNone, "es": tcpEstablished, "ss": tcpSynSent, "sr": tcpSynRecv, "fw": tcpFinWait, "tw": tcpTimeWait,
		"cl": tcpClose, "cw": tcpCloseWait, "la": tcpLastAck, "li": tcpListen, "sa": tcpSynAck,
	}
	for i := range out {
		out[i] = letters[text[3*i:3*i+2]]
	}
	return out
}

// tcpTransit moves an entry by a segment: its state, its timeout, and with them
// the count of active connections.
func (m *Model) tcpTransit(e *entry, f Flags, reply bool) {
	table := 0
	switch {
	case reply:
		table, e.noOutput = 1, false
	case e.noOutput:
		table = 2
	}
	next := tcpClose
	switch {
	case f&RST != 0:
		next = tcpNext[table][3][e.state]
	case f&SYN != 0:
		next = tcpNext[table][0][e.state]
	case f&FIN != 0:
		next = tcpNext[table][1][e.state]
	case f&ACK != 0:
		next = tcpNext[table][2][e.state]
	}
	if next != e.state {
		if tcpActive[next] != e.active {
			e.active = !e.active
			if e.active {
				e.dest.active++
			} else {
				e.dest.active--
			}
		}
		if next == tcpEstablished {
			m.assure(e)
		}
	}
	e.state = next
	e.timeout = m.tcpStates[next]
}
