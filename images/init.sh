#!/bin/sh
# Reaches the root by hand and starts a shell, or what lvslab.init= names.
# Used when an image is booted without an agent (rdinit not given).
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
while read -r module; do
	$bb insmod "$module" || echo "init: $module does not load"
done </lib/lvslab/modules
tries=0
until [ -b /dev/vda ] || [ $tries -ge 50 ]; do
	$bb usleep 100000
	tries=$((tries + 1))
done
$bb mount -t squashfs -o ro /dev/vda /lower || exec $bb sh
$bb mount -t tmpfs tmpfs /upper
$bb mkdir /upper/data /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /newroot || exec $bb sh
for dir in proc sys dev; do
	$bb mount -o move /$dir /newroot/$dir
done
program=/bin/sh
for word in $($bb cat /newroot/proc/cmdline); do
	case $word in
	lvslab.init=*) program=${word#lvslab.init=} ;;
	esac
done
exec $bb switch_root /newroot "$program"
