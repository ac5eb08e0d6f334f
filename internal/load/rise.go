package load

// Rise is how much a counter of so many bits rose between two readings; bits 0
// means 64. A counter of 32 bits that went back has wrapped, once. One of 64 bits
// cannot wrap: at 10⁹ a second that takes 584 years, so when it went back it was
// set anew; back says so, and n is 0 then.
//
// Wide in every kernel that a lab can boot: IPVS (IPVS_SVC_ATTR_STATS64, struct
// ip_vs_kstats, since 4.1; the totals of /proc/net/ip_vs_stats), network devices
// (struct rtnl_link_stats64), the group Ip of /proc/net/snmp (struct ipstats_mib),
// named's statistics (isc_statscounter_t). The groups Icmp, Udp, Tcp and TcpExt
// are unsigned long (include/net/snmp.h): 32 bits where that has 32. The counts of a
// packet socket (struct tpacket_stats_v3, unsigned int) begin anew with each reading.
func Rise(before, after uint64, bits int) (n uint64, back bool) {
	switch {
	case after >= before:
		return after - before, false
	case bits == 32 && before < 1<<32:
		return after + 1<<32 - before, false
	}
	return 0, true
}
