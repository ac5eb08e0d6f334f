#!/bin/sh
# Two kernels, one verdict: does another kernel schedule otherwise?
#
#   regression.sh [OLD [NEW]]
#
# Each is a Debian package with a kernel, the path of a kernel's tree, or the path
# of a bzImage and that of its modules with a comma between. Paths are absolute.
# Exit 0 when all treatments are alike, 1 when one differs, and with lvslab's own
# code when a study could not be made. LVSLAB names the program, RESULTS where
# the results go.
set -eu
lvslab=${LVSLAB:-lvslab}
old=${1:-linux-image-cloud-amd64}
new=${2:-linux-image-6.12-cloud-amd64}
results=${RESULTS:-results/regression}
here=$(dirname "$0")

study() {
	kernel=${2%%,*} modules=
	[ "$kernel" = "$2" ] || modules=${2#*,}
	code=0
	"$lvslab" apply --auto-approve -var "kernel=$kernel" -var "modules=$modules" --results "$results/$1" "$here/regression.hcl" || code=$?
	# 3: a check failed. A query that a backend's queue drops has been decided on
	# before, and it is decisions that are compared.
	case $code in 0 | 3) ;; *) exit "$code" ;; esac
}

study old "$old"
study new "$new"

said=$("$lvslab" compare "$results/old/regression/latest" "$results/new/regression/latest")
printf '%s\n' "$said"
alike=$(printf '%s\n' "$said" | sed -n 's/^Outcomes: \([0-9]*\) of \([0-9]*\) treatments in both results are alike.*/\1 \2/p')
if [ -z "$alike" ]; then
	echo "regression: compare named no treatments" >&2
	exit 1
fi
[ "${alike% *}" = "${alike#* }" ] || {
	echo "regression: $old and $new differ" >&2
	exit 1
}
