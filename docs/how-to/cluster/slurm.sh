#!/bin/bash
# One item of a plan in each task of a job array:
#     sbatch --array=1-$(wc -l < items.txt) slurm.sh      (items.txt: the ids of the items, one a line)
#SBATCH --job-name=longwatch
#SBATCH --output=%x-%A-%a.out
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before its time is over the script is told, and the item with it, so that it can be gone on with.
#SBATCH --signal=B:TERM@120

plan=$SLURM_SUBMIT_DIR/plan.toml
item=$(sed -n "${SLURM_ARRAY_TASK_ID}p" "$SLURM_SUBMIT_DIR/items.txt")
# What is kept of an item has to be there on whichever node it goes on: a folder on a shared disk.
export XDG_STATE_HOME=$SLURM_SUBMIT_DIR/.longwatch

# No lease: nobody renews it, and SLURM ends the job itself.
longwatch runner --foreground --lease off --plan "$plan" --item "$item" &
runner=$!
trap 'kill -TERM $runner' TERM
wait $runner; status=$?
# A signal ends the first wait, not the runner.
if [ $status -gt 128 ]; then wait $runner; status=$?; fi

# 75: there is more to do. The next life of the task goes on with the same folder.
test $status -eq 75 && scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
exit $status
