#!/usr/bin/env bash
# Runs a command on a small machine of its own under QEMU: with KVM where that works, else emulated in software.
#
#     scripts/vm.sh [OPTION]... COMMAND [ARGUMENT]...
#     scripts/vm.sh --probe    only finds out whether it can be had
#     scripts/vm.sh --clock    prints the clock of a --counted one: real with KVM, else counted
#
# --nodes N      NUMA nodes, at most 4, each of one core and of --memory (default 1)
# --memory MIB   of each node (default 512)
# --counted      without KVM the time is that of the instructions run, one nanosecond each, and idle time is skipped:
#                latencies of devices and the work between them keep their order, whatever the emulator costs
# --file FILE    to have there under the path that it has here, with the shared libraries that it is linked with
# --disk SIZE    an empty SSD of that size (1500M): /dev/nvme0n1, /dev/nvme1n1 and so on
# --module NAME  a module of the kernel to load at the start, in the given order; parameters may follow its name
#
# The guest has Debian's kernel, busybox and numactl, and COMMAND as a --file. The working directory is the same, the
# environment is not. Control groups of version 2 are mounted. The kernel's command line tells the nodes
# (oboro.nodes=) and what the clock is (oboro.clock=): real, emulated or counted.
#
# Prints what the command prints and ends with its status. Other ends: 77 where what the machine is made of cannot be
# had, 124 when the command has not ended in time, 1 when the machine died.
#
# VM_SECONDS  time for all of it (default 300)
# VM_KERNEL   the kernel to boot (default: Debian's linux-image-cloud-amd64); it has no --module
set -euo pipefail

# From each node (row) to each (column): two pairs of neighbours.
DISTANCES=(
    10 16 22 22
    16 10 22 22
    22 22 10 16
    22 22 16 10
)
MOST_NODES=4
# The kernel must not move pages to those who read them, and has nobody to protect from others.
BOOT="quiet panic=-1 numa_balancing=disable mitigations=off init_on_alloc=0"
QEMU=(qemu-system-x86_64 -no-user-config -nodefaults -display none -no-reboot)
# Instructions take 2^0 ns.
COUNTED=shift=0,sleep=off
seconds=${VM_SECONDS:-300}
packages=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/numa-vm

skip() {
    echo "skipped: $1; nothing ran on a machine of its own"
    exit 77
}

fail() {
    echo "error: $1" >&2
    exit 1
}

nodes=1
memory=512
counted=false
files=()
disks=()
modules=()
while [[ ${1:-} == --* && $1 != --probe && $1 != --clock ]]; do
    value=${2:-}
    case $1 in
    --nodes)
        [[ $value =~ ^[1-$MOST_NODES]$ ]] || fail "--nodes needs a number up to $MOST_NODES, not '$value'"
        nodes=$value
        ;;
    --memory)
        [[ $value =~ ^[1-9][0-9]*$ ]] || fail "--memory needs a number of MiB, not '$value'"
        memory=$value
        ;;
    --file)
        [[ -r $value ]] || fail "--file needs a file that can be read, not '$value'"
        files+=("$(realpath --no-symlinks "$value")")
        ;;
    --disk)
        [[ $value =~ ^[1-9][0-9]*[MG]$ ]] || fail "--disk needs a size such as 1500M or 2G, not '$value'"
        disks+=("$value")
        ;;
    --module)
        [[ -n $value ]] || fail "--module needs a name, and parameters if there are any"
        modules+=("$value")
        ;;
    --counted)
        counted=true
        shift
        continue
        ;;
    *) fail "there is no option $1; the first lines of scripts/vm.sh list all" ;;
    esac
    shift 2
done
[[ $# -gt 0 ]] || fail "no command; usage: scripts/vm.sh [OPTION]... COMMAND [ARGUMENT]..."
! $counted || [[ $nodes -eq 1 ]] || fail "--counted machines have one node"
# A command that only the guest has is not found here.
if program=$(type -P -- "$1"); then
    files+=("$(realpath --no-symlinks "$program")")
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/vm.XXXXXX")
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
    if [[ -n ${VM_KERNEL:-} ]]; then
        kernel=$VM_KERNEL
        [[ -r $kernel ]] || fail "cannot read VM_KERNEL=$kernel"
        return
    fi
    local image
    image=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p')
    [[ -n $image ]] || skip "apt knows no package linux-image-cloud-amd64 (try apt-get update)"
    unpack "$image"
    kernel=$(echo "$packages/$image"/boot/vmlinuz-*)
    drivers=$packages/$image/lib/modules
}

# Sets the file of a module of this name.
find_module() {
    [[ -n ${drivers:-} ]] || fail "VM_KERNEL has no modules; --module $1 is for Debian's kernel"
    driver=$(find "$drivers" -name "$1.ko")
    [[ -n $driver ]] || fail "the kernel has no module $1"
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
INIT
    local module
    for module in "${modules[@]}"; do
        echo "insmod /modules/${module%% *}.ko${module#"${module%% *}"}"
    done
    cat <<INIT
cd $(printf '%q' "$PWD")
PATH=/usr/sbin:/usr/bin:/sbin:/bin $(printf '%q ' "$@") </dev/null >/dev/ttyS1 2>&1
echo \$? >/dev/ttyS2
poweroff -f
INIT
}

make_initramfs() {
    local root=$work/root
    mkdir -p "$root"/{bin,proc,sys,dev,tmp,modules} "$root$PWD"
    cp "$packages/busybox-static/bin/busybox" "$root/bin"
    cp --recursive "$packages"/{libnuma1,numactl}/usr "$root"
    local file module
    for module in "${modules[@]}"; do
        find_module "${module%% *}"
        cp "$driver" "$root/modules"
    done
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

# Whether KVM runs a guest here: some hosts have the device and no way to run such a kernel. Found out once.
has_kvm() {
    local known
    known=$packages/kvm-$(cat /proc/sys/kernel/random/boot_id)
    if [[ ! -s $known ]]; then
        rm -f "$packages"/kvm-*
        mkdir -p "$work/probe/bin"
        cp "$packages/busybox-static/bin/busybox" "$work/probe/bin"
        printf '#!/bin/busybox sh\necho oboro runs\nexec /bin/busybox poweroff -f\n' >"$work/probe/init"
        chmod +x "$work/probe/init"
        (cd "$work/probe" && find . | bin/busybox cpio -o -H newc) >"$work/probe.cpio" 2>"$work/cpio"
        if [[ -w /dev/kvm ]] && timeout 20 "${QEMU[@]}" -accel kvm -cpu host -m 256M -kernel "$kernel" \
            -initrd "$work/probe.cpio" -append "console=ttyS0 panic=-1" -serial stdio </dev/null 2>&1 | grep --quiet "oboro runs"; then
            echo true >"$known"
        else
            echo false >"$known"
        fi
    fi
    [[ $(cat "$known") == true ]]
}

boot() {
    local parts=() distances=() drives=() from to disk machine clock
    for ((from = 0; from < nodes; from++)); do
        parts+=(-object "memory-backend-ram,id=memory$from,size=${memory}M"
            -numa "node,nodeid=$from,cpus=$from,memdev=memory$from")
        for ((to = 0; to < nodes; to++)); do
            distances+=(-numa "dist,src=$from,dst=$to,val=${DISTANCES[from * MOST_NODES + to]}")
        done
    done
    for disk in "${!disks[@]}"; do
        truncate --size "${disks[disk]}" "$work/disk$disk"
        drives+=(-drive "file=$work/disk$disk,format=raw,if=none,id=disk$disk,discard=unmap"
            -device "nvme,serial=disk$disk,drive=disk$disk")
    done
    if has_kvm; then
        clock=real machine=(-accel kvm -cpu host)
    elif $counted; then
        clock=counted machine=(-accel "tcg,thread=single" -cpu max -icount "$COUNTED")
    else
        clock=emulated machine=(-accel tcg -cpu max)
    fi
    timeout "$seconds" "${QEMU[@]}" "${machine[@]}" -smp "$nodes" -m "$((nodes * memory))M" \
        "${parts[@]}" "${distances[@]}" "${drives[@]}" -kernel "$kernel" -initrd "$work/initramfs" \
        -append "console=ttyS0 $BOOT oboro.nodes=$nodes oboro.clock=$clock" \
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
case $1 in
--probe) exit 0 ;;
--clock)
    if has_kvm; then echo real; else echo counted; fi
    exit 0
    ;;
esac

make_initramfs "$@"
ended=0
boot || ended=$?
if [[ $ended -eq 124 ]]; then
    echo "error: the command did not end within VM_SECONDS=$seconds" >&2
    exit 124
fi
if [[ $ended -ne 0 || ! -s $work/status ]]; then
    tail -n 30 "$work/console" >&2 || true
    fail "the machine died (QEMU ended with $ended); above are its last words"
fi
exit "$(tr -d '\r' <"$work/status")"
