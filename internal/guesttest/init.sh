#!/bin/sh
# PID 1 of a guest that runs a test binary and turns itself off.
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
while read -r module; do
	$bb insmod "$module" || echo "guest: $module does not load"
done </lib/lvslab/modules
tries=0
until [ -b /dev/vda ] || [ $tries -ge 50 ]; do
	$bb usleep 100000
	tries=$((tries + 1))
done
$bb mount -t squashfs -o ro /dev/vda /lower
$bb mount -t tmpfs tmpfs /upper
$bb mkdir /upper/data /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /newroot
for dir in proc sys dev; do
	$bb mount -o move /$dir /newroot/$dir
done
$bb mount -t tmpfs tmpfs /newroot/run
$bb mv /guest /newroot/run/guest
$bb cat >/newroot/run/guest/main <<'MAIN'
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LVSLAB_IN_GUEST=1
ip link set lo up
cd /run/guest
. ./env
./test -test.v -test.count=1 -test.timeout=8m -test.run "$(cat pattern)"
echo "GUEST EXIT $?"
sleep 0.2
poweroff -f
MAIN
$bb chmod 755 /newroot/run/guest/main
exec $bb switch_root /newroot /run/guest/main
