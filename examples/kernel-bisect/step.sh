#!/bin/sh
# One step of a bisection of the kernel: builds the commit that is checked out and
# lets lvslab judge it. In a kernel's tree:
#
#   git bisect start BAD GOOD
#   git bisect run …/examples/kernel-bisect/step.sh [TOPOLOGY]
#
# The topology has a variable "kernel" for the tree, and checks that say what is
# good; scheduler.hcl beside this script is one. BUILD is a command that leaves
# arch/x86/boot/bzImage and modules, in place of the build below. Exit 0: all checks
# hold. 1: one failed. 125, which has git try another commit: it does not build, or
# does not boot, or was not measured. 128: something is wrong that no commit mends.
set -u
here=$(cd "$(dirname "$0")" && pwd)
lvslab=${LVSLAB:-lvslab}
topology=${1:-$here/scheduler.hcl}

build() {
	if [ -n "${BUILD:-}" ]; then
		sh -c "$BUILD"
		return
	fi
	make -s x86_64_defconfig &&
		scripts/kconfig/merge_config.sh -m .config "$here/guest.config" >/dev/null &&
		make -s olddefconfig &&
		make -s -j"$(nproc)" bzImage modules
}

if [ ! -f "$topology" ] || ! command -v "$lvslab" >/dev/null; then
	echo "step: $topology or $lvslab is not there" >&2
	exit 128
fi
commit=$(git rev-parse --short HEAD) || exit 128
if ! build; then
	echo "step: $commit does not build" >&2
	exit 125
fi
"$lvslab" apply --fresh --auto-approve -var "kernel=$PWD" --results "${RESULTS:-$PWD/../bisect}/$commit" "$topology"
code=$?
echo "step: lvslab says $code of $commit" >&2
case $code in
0) exit 0 ;;
3) exit 1 ;;
1 | 4) exit 125 ;;
*) exit 128 ;;
esac
