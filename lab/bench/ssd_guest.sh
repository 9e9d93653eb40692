#!/bin/sh
# Runs in the machine of ssd_machine.py: makes the device for what does not fit into memory, and measures on it.
#
#     ssd_guest.sh zram|MICROSECONDS MIB swap|files LAB OPTION...    options of `oboro-lab ssd`
#
# The device is memory either way: compressed, or a null_blk that completes each request after that time. With `files`
# it has a file system, from which a server can stream, and the swap is a file there.
set -eu
latency=$1 mebibytes=$2 use=$3 lab=$4
shift 4
case $latency in
zram)
    device=/dev/zram0
    echo "${mebibytes}M" >/sys/block/zram0/disksize
    ;;
*)
    device=/dev/null$latency
    mkdir -p /sys/kernel/config
    mount -t configfs configfs /sys/kernel/config
    settings=/sys/kernel/config/nullb/null$latency
    mkdir "$settings"
    echo "$mebibytes" >"$settings/size"
    echo 1 >"$settings/memory_backed"
    # Requests go through the queues of the block layer, and a timer completes them.
    echo 2 >"$settings/queue_mode"
    echo 2 >"$settings/irqmode"
    echo "${latency}000" >"$settings/completion_nsec"
    echo 1 >"$settings/power"
    ;;
esac
clock=$(sed -n 's/.*oboro.clock=\([a-z]*\).*/\1/p' /proc/cmdline)
echo "{\"bench\": \"ssd machine\", \"clock\": \"$clock\"}"
case $use in
swap)
    # By their paths: busybox has smaller ones of its own.
    /usr/sbin/mkswap "$device" >/dev/null
    place=$device
    ;;
files)
    /usr/sbin/mkfs.ext4 -q "$device"
    place=/data
    mkdir "$place"
    mount -t ext4 "$device" "$place"
    ;;
esac
exec "$lab" ssd --json --device "$place" "$@"
