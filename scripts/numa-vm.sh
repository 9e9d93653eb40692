#!/usr/bin/env bash
# Runs a command on a machine of four NUMA nodes that is emulated in software. It shows where memory
# lies, not how fast it is.
#
#     scripts/numa-vm.sh [--file FILE]... [--disk SIZE]... COMMAND [ARGUMENT]...
#     scripts/numa-vm.sh --probe    only finds out whether it can be had
#
# The guest has Debian's kernel, busybox and numactl. COMMAND, every FILE and the shared libraries that
# they are linked with are there under the paths that they have here; the working directory is the same,
# the environment is not. Each node has one core and 512 MiB. Control groups of version 2 are mounted, and
# each --disk is an empty SSD of that size (1500M), /dev/nvme0n1, /dev/nvme1n1 and so on.
#
# Prints what the command prints and ends with its status. Other ends: 77 where what the machine is
# made of cannot be had, 124 when the command has not ended in time, 1 when the machine died.
#
# NUMA_VM_SECONDS  time for all of it (default 300)
# NUMA_VM_KERNEL   the kernel to boot (default: Debian's linux-image-cloud-amd64)
#
# As the runner of cargo it takes the tests of a crate there:
#     CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/numa-vm.sh cargo test -p oboro-arena --lib
set -euo pipefail

NODES=4
NODE_MIB=512
# From each node (row) to each (column): two pairs of neighbours.
DISTANCES=(
    10 16 22 22
    16 10 22 22
    22 22 10 16
    22 22 16 10
)
seconds=${NUMA_VM_SECONDS:-300}
packages=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/numa-vm

skip() {
    echo "skipped: $1; nothing ran on four nodes"
    exit 77
}

fail() {
    echo "error: $1" >&2
    exit 1
}

files=()
disks=()
while [[ ${1:-} == --file || ${1:-} == --disk ]]; do
    if [[ $1 == --file ]]; then
        [[ -r ${2:-} ]] || fail "--file needs a file that can be read, not '${2:-}'"
        files+=("$(realpath --no-symlinks "$2")")
    else
        [[ ${2:-} =~ ^[1-9][0-9]*[MG]$ ]] || fail "--disk needs a size such as 1500M or 2G, not '${2:-}'"
        disks+=("$2")
    fi
    shift 2
done
[[ $# -gt 0 ]] ||
    fail "no command; usage: scripts/numa-vm.sh [--file FILE]... [--disk SIZE]... COMMAND [ARGUMENT]..."
probing=false
[[ $1 != --probe ]] || probing=true
# A command that only the guest has is not found here.
if program=$(type -P -- "$1"); then
    files+=("$(realpath --no-symlinks "$program")")
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/numa-vm.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Unpacks a Debian package, without installing it, into a folder of its name that later runs use again.
unpack() {
    local package=$1
    [[ ! -d $packages/$package ]] || return 0
    (cd "$work" && apt-get download "$package") >"$work/apt" 2>&1 ||
        skip "the Debian package $package cannot be had: $(tail -n 1 "$work/apt")"
    dpkg -x "$work/$package"_*.deb "$work/$package"
    mv "$work/$package" "$packages/$package"
}

find_kernel() {
    if [[ -n ${NUMA_VM_KERNEL:-} ]]; then
        kernel=$NUMA_VM_KERNEL
        [[ -r $kernel ]] || fail "cannot read NUMA_VM_KERNEL=$kernel"
        return
    fi
    local image
    image=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p')
    [[ -n $image ]] || skip "apt knows no package linux-image-cloud-amd64 (try apt-get update)"
    unpack "$image"
    kernel=$(echo "$packages/$image"/boot/vmlinuz-*)
}

# The libraries that a file is linked with: none if it is no program.
libraries_of() {
    ldd "$1" 2>/dev/null | grep --only-matching '/[^ ]*' || true
}

# The guest's first process. What the command prints goes to the second serial port and its status to the
# third: the first is the kernel's.
write_init() {
    cat <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
stty -F /dev/ttyS1 -opost
ifconfig lo up
cd $(printf '%q' "$PWD")
PATH=/usr/bin:/bin $(printf '%q ' "$@") </dev/null >/dev/ttyS1 2>&1
echo \$? >/dev/ttyS2
poweroff -f
INIT
}

make_initramfs() {
    local root=$work/root
    mkdir -p "$root"/{bin,proc,sys,dev,tmp} "$root$PWD"
    cp "$packages/busybox-static/bin/busybox" "$root/bin"
    cp --recursive "$packages"/{libnuma1,numactl}/usr "$root"
    local file
    for file in "$packages/numactl/usr/bin/numactl" "${files[@]}"; do
        libraries_of "$file"
    done | sort --unique | xargs --delimiter "\n" cp --parents --dereference --target-directory "$root"
    for file in "${files[@]}"; do
        cp --parents --dereference "$file" "$root"
    done
    write_init "$@" >"$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | "$root/bin/busybox" cpio -o -H newc) >"$work/initramfs" 2>"$work/cpio" ||
        fail "cannot make the guest's file system: $(cat "$work/cpio")"
}

boot() {
    local nodes=() distances=() drives=() from to disk
    for ((from = 0; from < NODES; from++)); do
        nodes+=(-object "memory-backend-ram,id=memory$from,size=${NODE_MIB}M"
            -numa "node,nodeid=$from,cpus=$from,memdev=memory$from")
        for ((to = 0; to < NODES; to++)); do
            distances+=(-numa "dist,src=$from,dst=$to,val=${DISTANCES[from * NODES + to]}")
        done
    done
    for disk in "${!disks[@]}"; do
        truncate --size "${disks[disk]}" "$work/disk$disk"
        drives+=(-drive "file=$work/disk$disk,format=raw,if=none,id=disk$disk,discard=unmap"
            -device "nvme,serial=disk$disk,drive=disk$disk")
    done
    # The kernel must not move pages to those who read them.
    timeout "$seconds" qemu-system-x86_64 -no-user-config -nodefaults -display none -no-reboot \
        -accel tcg -cpu max -smp "$NODES" -m "$((NODES * NODE_MIB))M" "${nodes[@]}" \
        "${distances[@]}" "${drives[@]}" \
        -kernel "$kernel" -initrd "$work/initramfs" \
        -append "console=ttyS0 quiet panic=-1 numa_balancing=disable oboro.nodes=$NODES" \
        -serial "file:$work/console" -serial stdio -serial "file:$work/status" </dev/null
}

[[ $(uname -m) == x86_64 ]] || skip "the emulated machine is an x86-64, this one is not"
command -v qemu-system-x86_64 >/dev/null ||
    skip "QEMU is not installed (apt-get install --no-install-recommends qemu-system-x86)"
command -v apt-get >/dev/null ||
    skip "kernel, busybox and numactl are Debian's packages, and apt-get is not installed"
mkdir -p "$packages"
exec 9>"$packages/lock"
flock 9
find_kernel
for package in busybox-static libnuma1 numactl; do
    unpack "$package"
done
flock --unlock 9
! $probing || exit 0

make_initramfs "$@"
ended=0
boot || ended=$?
if [[ $ended -eq 124 ]]; then
    echo "error: the command did not end within NUMA_VM_SECONDS=$seconds" >&2
    exit 124
fi
if [[ $ended -ne 0 || ! -s $work/status ]]; then
    tail -n 30 "$work/console" >&2 || true
    fail "the machine died (QEMU ended with $ended); above are its last words"
fi
exit "$(tr -d '\r' <"$work/status")"
