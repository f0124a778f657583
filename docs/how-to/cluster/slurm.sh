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
# Ten minutes before its time is over the script is told.
#SBATCH --signal=B:USR2@600

plan=$SLURM_SUBMIT_DIR/plan.toml
item=$(sed -n "${SLURM_ARRAY_TASK_ID}p" "$SLURM_SUBMIT_DIR/items.txt")
# What is kept of an item has to be there on whichever node it goes on: a folder on a shared disk.
export XDG_STATE_HOME=$SLURM_SUBMIT_DIR/.longwatch

# No lease: nobody renews it, and SLURM ends the job itself.
longwatch runner --foreground --lease off --plan "$plan" --item "$item" &
runner=$!

# Told so, the item is marked as over its budget, and goes on: it may finish, or where its policy says so be ended for its
# silence. If it still runs two minutes before the end, it is ended so that it can be gone on with.
warned() {
    kill -USR2 $runner
    ( timeout 480 tail --pid=$runner -f /dev/null || kill -TERM $runner ) &
}
trap warned USR2
trap 'kill -TERM $runner' TERM
# A signal ends a wait, not the runner.
while kill -0 $runner 2>/dev/null; do wait $runner; done
wait $runner; status=$?

# 75: there is more to do. The next life of the task goes on with the same folder.
test $status -eq 75 && scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
exit $status
