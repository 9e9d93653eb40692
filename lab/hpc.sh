#!/usr/bin/env bash
# Runs all of `make papers` on a machine of several sockets, such as the NUMA paper's of four, and collects the page and
# results.json. Checks first what the machine has and says what it will do; `--dry-run` ends there. Asks nothing, so
# that a batch scheduler can run it:
#
#     sbatch --exclusive --nodes=1 --time=4:00:00 lab/hpc.sh --out results
#     qsub -l select=1 -l place=excl -- lab/hpc.sh --out results
#
#   --out DIR         where page, results and log go (default: papers-HOST-DATE in the current directory)
#   --sockets N       how many memory nodes there must be (default 4); fewer are refused
#   --threads N       of the benches that take BENCH_THREADS (default: all cores that this job may use); those of
#                     allocators, task queues and emulated devices choose numbers of their own, as the papers do
#   --gigabytes N     memory that must be free (default 16)
#   --papers OPTIONS  options of make papers, such as '--quick' or '--repeat 5'
#   --dry-run         check and say, and run nothing
set -euo pipefail
# A scheduler runs a copy of the script elsewhere and names the directory it was submitted from.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -f $root/lab/papers.toml ]] || root=${SLURM_SUBMIT_DIR:-${PBS_O_WORKDIR:-$PWD}}

fail() {
    echo "error: $1" >&2
    exit 1
}
[[ -f $root/lab/papers.toml ]] || fail "$root is no clone of Oboro; submit the job from the clone's directory"

out='' sockets=4 threads='' gigabytes=16 papers='' dry=
while (($#)); do
    case $1 in
        --out | --sockets | --threads | --gigabytes | --papers)
            (($# > 1)) || fail "$1 needs a value"
            case $1 in
                --out) out=$2 ;;
                --sockets) sockets=$2 ;;
                --threads) threads=$2 ;;
                --gigabytes) gigabytes=$2 ;;
                --papers) papers=$2 ;;
            esac
            shift
            ;;
        --dry-run) dry=1 ;;
        --help)
            sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) fail "there is no option $1; see --help" ;;
    esac
    shift
done
for number in "$sockets" "$gigabytes" "${threads:-1}"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail "$number is no number of sockets, gigabytes or threads"
done

# What the kernel lets this job use: a scheduler may have given it a part of the machine.
allowed() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
# count LIST: how many numbers a list such as 0-3,8 has.
count() {
    local part total=0
    for part in ${1//,/ }; do
        total=$((total + ${part#*-} - ${part%-*} + 1))
    done
    echo "$total"
}
cores=$(count "$(allowed Cpus_allowed_list)")
nodes=$(count "$(allowed Mems_allowed_list)")
free=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024 / 1024))
threads=${threads:-$cores}

((nodes >= sockets)) ||
    fail "this job may use $nodes memory node(s), not $sockets: ask the scheduler for a whole machine, or give --sockets $nodes"
((free >= gigabytes)) ||
    fail "$free GiB are free, not $gigabytes: ask for more memory, or give --gigabytes $free"
((threads <= cores)) || fail "this job may use $cores core(s), not $threads; give --threads $cores"
for program in make git python3 cc; do
    command -v "$program" >/dev/null || fail "there is no $program; load its module, or install it"
done

warnings=()
[[ $(uname -m) == x86_64 || $(uname -m) == aarch64 ]] || warnings+=("$(uname -m) has no vector kernels")
command -v numactl >/dev/null || warnings+=("numactl is not installed: machine.txt lacks its account of the nodes")
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 4)
if ! command -v perf >/dev/null; then
    warnings+=("perf is not installed: the profiles of genome search are left out")
elif ((paranoid > 1)) && ((EUID != 0)); then
    warnings+=("kernel.perf_event_paranoid is $paranoid: above 1 the profiles are left out")
fi
balancing=$(cat /proc/sys/kernel/numa_balancing 2>/dev/null || echo 0)
((balancing == 0)) || warnings+=("kernel.numa_balancing is on: the kernel moves pages, against what placements want")
governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null || echo performance)
[[ $governor == performance ]] || warnings+=("the frequency governor is $governor, not performance")
load=$(cut -d. -f1 /proc/loadavg)
((load < 2)) || warnings+=("other work is running: the load is $load")
((EUID == 0)) || warnings+=("without root there is no swap and no control group: what needs them is left out")

out=${out:-papers-$(uname -n)-$(date -u +%Y%m%d-%H%M)}
cat <<END
machine     $nodes memory node(s), $cores core(s), $free GiB free, Linux $(uname -r)
clone       $root at $(git -C "$root" describe --always --dirty=' with changes' --exclude='*')
will run    make papers BENCH_THREADS=$threads PAPERS='$papers', which resumes where it was interrupted
            (builds the command, the laboratory and the peers first; up to 3 hours on two cores)
will write  $out: papers.html, results.json, log, and machine.txt
END
for warning in "${warnings[@]}"; do
    echo "warning     $warning"
done
[[ -z $dry ]] || exit 0

mkdir -p "$out"
out=$(cd "$out" && pwd)
{
    uname -r
    lscpu 2>/dev/null || true
    numactl --hardware 2>/dev/null || true
    printf '%s\n' "${warnings[@]}"
} >"$out/machine.txt"
cd "$root"
# Missing tools are installed without asking where that is possible, or named.
export CI=true
status=0
make papers BENCH_THREADS="$threads" PAPERS="$papers" 2>&1 | tee "$out/log" || status=$?
for file in papers.html results.json; do
    cp "${CARGO_TARGET_DIR:-target}/papers/$file" "$out/" 2>/dev/null ||
        fail "make papers wrote no $file; its last words are in $out/log"
done
echo "done: $out/papers.html"
exit "$status"
