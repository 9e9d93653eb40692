#!/usr/bin/env bash
# Private genome search end to end: an operator with a panel, a client whose queries the server cannot read.
#
# OBORO            the command to run
# VCF              a file of phased genotypes (default: a generated panel of 5,000 haplotypes at 1,000 sites)
set -euo pipefail

oboro=${OBORO:?OBORO must name the oboro command; run make demo-genome}
if [[ -n ${VCF:-} && ! -r ${VCF} ]]; then
    echo "error: cannot read VCF=${VCF}; give the path of a VCF file with phased genotypes" >&2
    exit 1
fi

# shellcheck source=scripts/demo-stage.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-stage.sh"

echo "== The operator: a private panel, and a server =="
data=$work/data
if [[ -n ${VCF:-} ]]; then
    step "$oboro" genome load --data "$data" --panel demo "$VCF"
else
    step "$oboro" genome generate --data "$data" --panel demo --haplotypes 5000 --sites 1000
fi
serve data --genome-counts

printf '\n== Something to look for: the alleles of haplotype 1, which the operator can see ==\n'
step "$oboro" genome show --data "$data" --panel demo --haplotype 1 --length 20 | tee "$work/haplotype"
read -r place alleles < <(tail -n 1 "$work/haplotype")

printf '\n== The client asks; --verify compares with a search of the plaintext, which only a demonstration can ==\n'
ask() {
    step "$oboro" genome query --panel demo --position "$place" --verify "$data" "$@"
}
step "$oboro" genome list
ask --alleles "$alleles"
ask --alleles "$alleles" --count
ask --alleles "????${alleles:4:8}" --count
other=$(tr 01 10 <<<"${alleles:0:2}")${alleles:2}
ask --alleles "$other"
ask --alleles "$other" --within 2
ask --alleles "${alleles:0:12}$(tr 01 10 <<<"${alleles:12}")" --longest
ask --alleles "${alleles:0:10}" --decoys 7
