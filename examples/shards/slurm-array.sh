#!/bin/sh
#SBATCH --job-name=lvslab
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#
# Slurm: an array job makes the shares, a job after it joins them.
#
#   SHARES=8 slurm-array.sh TOPOLOGY     on the login node, in a directory that all
#                                        nodes have
#
# The nodes need lvslab, and root for the embedded hypervisor. Each task works in a
# directory of its own: two labs of one name on one node would have one state.
set -eu
topology=$(realpath "$1")
shares=${SHARES:-4}

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then # a task of the array
	mkdir -p "tasks/$SLURM_ARRAY_TASK_ID"
	cp -R "$(dirname "$topology")/." "tasks/$SLURM_ARRAY_TASK_ID"
	lvslab apply --auto-approve --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
		--results "shares/$SLURM_ARRAY_TASK_ID" "tasks/$SLURM_ARRAY_TASK_ID/$(basename "$topology")"
elif [ -n "${SLURM_JOB_ID:-}" ]; then # the job after it
	lvslab merge -o results shares/*/*/latest
	lvslab verify results/*/latest
else # the login node
	id=$(sbatch --parsable --array="1-$shares" "$0" "$topology")
	sbatch --dependency="afterok:${id%%;*}" "$0" "$topology"
fi
