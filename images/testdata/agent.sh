#!/bin/busybox sh
# Stands for the agent: goes the same way to the root, then checks that
# everything a lab needs works there. One "CHECK name ok|FAIL" line each.
bb=/bin/busybox
$bb mount -t proc proc /proc
echo "UPTIME agent $($bb cut -d' ' -f1 /proc/uptime)"
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
while read -r module; do
	$bb insmod "$module" || echo "CHECK insmod-$module FAIL"
done </lib/lvslab/modules
until [ -b /dev/vda ]; do $bb usleep 20000; done
$bb mount -t squashfs -o ro /dev/vda /lower
$bb mount -t tmpfs tmpfs /upper
$bb mkdir /upper/data /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /newroot
for dir in proc sys dev; do $bb mount -o move /$dir /newroot/$dir; done
$bb cat >/newroot/checks.sh <<'CHECKS'
export PATH=/usr/sbin:/usr/bin
echo "UPTIME root $(cut -d' ' -f1 /proc/uptime)"
check() { # name, command…
	name=$1
	shift
	if out=$("$@" 2>&1); then echo "CHECK $name ok"; else echo "CHECK $name FAIL $(echo "$out" | tail -9 | tr '\n' ';')"; fi
}
hostname -F /etc/hostname
check shell bash -c '[[ $(readlink /proc/$$/exe) = /usr/bin/bash && $(readlink -f /bin/sh) = /usr/bin/dash ]]'
check hostname sh -c '[ "$(hostname)" = lvslab-guest ]'
check users sh -c 'id -u bind && id -u tcpdump && id -u nobody && id -g bind'
check overlay-writable touch /usr/bin/new /etc/new
check no-failed-links sh -c '! find / -xdev -type l ! -exec test -e {} \; -print | grep -v "^/proc" | grep .'
check applets sh -c 'busybox --list >/tmp/l; for f in /usr/bin/*; do [ "$(readlink $f)" = busybox ] || continue; grep -qxF -- "${f##*/}" /tmp/l || { echo ${f##*/}; exit 1; }; done'
for s in rr wrr lc wlc lblc lblcr dh sh sed nq fo ovf mh; do
	check "scheduler-$s" modprobe ip_vs_$s
done
ip link set lo up
check service sh -c 'for s in rr wrr lc wlc lblc lblcr dh sh sed nq fo ovf mh; do ipvsadm -A -u 198.18.9.9:53 -s $s && ipvsadm -D -u 198.18.9.9:53 || exit 1; done'
check ipip sh -c 'ip link add t1 type ipip local 198.18.0.1 remote 198.18.0.2 && ip link set t1 up'
check gre ip link add t2 type gre local 198.18.0.1 remote 198.18.0.2
check fou sh -c 'modprobe fou && ip fou add port 5555 ipproto 4'
check ip6tnl ip link add t3 type ip6tnl local fd00::1 remote fd00::2
check bridge ip link add b1 type bridge
check vlan ip link add link eth0 name v1 type vlan id 7
check veth ip link add v2 type veth peer name v3
check netem tc qdisc add dev v2 root netem delay 5ms loss 1%
check tbf tc qdisc replace dev v2 root tbf rate 1mbit burst 10k latency 50ms
check nft sh -c 'nft add table inet t && nft add chain inet t c "{ type filter hook input priority 0; }" && nft add rule inet t c ip saddr 198.18.0.1 counter accept'
# A host with an IPv6 address but no IPv4 one beyond 127.0.0.1 makes dnsperf send
# to ::ffff:127.0.0.1, which fails without a word (glibc's AI_ADDRCONFIG).
ip address add 198.18.0.1/24 dev eth0 && ip link set eth0 up
check nic sh -c 'ip link show eth0 && ethtool -i eth0 | grep -q virtio_net && ethtool -K eth0 gro off'
check port sh -c 'grep -qx org.lvslab.test /sys/class/virtio-ports/*/name'
check rng sh -c 'grep -q virtio /sys/class/misc/hw_random/rng_current'
check ss ss -lun
cat >/etc/bind/lab.conf <<NAMED
options { directory "/var/cache/bind"; listen-on { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; server-id "guest"; };
zone "lab.test" { type primary; file "/etc/bind/lab.zone"; };
NAMED
printf '$TTL 60\n@ SOA ns. root. 1 1 1 1 60\n@ NS ns.lab.test.\nns A 198.18.0.1\nwww A 198.18.0.2\n' >/etc/bind/lab.zone
check named-checkconf named-checkconf -z /etc/bind/lab.conf
begin=$(cut -d' ' -f1 /proc/uptime)
check named named -u bind -c /etc/bind/lab.conf
tries=0
until dig +short +time=1 +tries=1 @127.0.0.1 www.lab.test | grep -q 198.18.0.2 || [ $tries -gt 20 ]; do tries=$((tries + 1)); done
echo "UPTIME named $begin to $(cut -d' ' -f1 /proc/uptime)"
check named-user sh -c '[ "$(stat -c %U /proc/$(pidof named))" = bind ] && [ -s /run/named/named.pid ]'
check dig sh -c 'dig +short @127.0.0.1 www.lab.test | grep -qx 198.18.0.2'
check id.server sh -c 'dig +short @127.0.0.1 id.server CH TXT | grep -q guest'
tcpdump -i lo -n -c 20 -w /tmp/cap.pcap udp port 53 >/tmp/tcpdump.out 2>&1 &
capture=$!
until grep -q listening /tmp/tcpdump.out || ! kill -0 $capture; do usleep 50000; done
echo "www.lab.test A" >/tmp/queries
check dnsperf sh -c 'dnsperf -s 127.0.0.1 -d /tmp/queries -n 200 -c 4 >/tmp/dnsperf.out 2>&1 && grep -q "Queries completed: *200" /tmp/dnsperf.out || { cat /tmp/dnsperf.out; exit 1; }'
tries=0
while kill -0 $capture 2>/dev/null && [ $tries -lt 50 ]; do usleep 100000 && tries=$((tries + 1)); done
check tcpdump sh -c 'n=$(tcpdump -n -r /tmp/cap.pcap | wc -l) && [ $n = 20 ] || { echo $n packets; cat /tmp/tcpdump.out; exit 1; }'
check dmesg-clean sh -c '! dmesg | grep -iE "oops|BUG:|unknown symbol|call trace"'
echo "CHECKS DONE"
poweroff -f
CHECKS
exec $bb switch_root /newroot /bin/sh /checks.sh
