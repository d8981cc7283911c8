#!/usr/bin/env bash
# Pre-trains on several machines with Slurm, one process on each. Run it from the
# checkout with its environment active:
#
#   sbatch --nodes=4 --gpus-per-node=4 deploy/slurm.sh --input_file=... \
#     --model=... --train_batch_size=256 --num_train_steps=100000 \
#     --learning_rate=1e-4 --output_dir=...
#
# Without --gpus-per-node, it trains on the CPUs. All files must be on a file
# system that the machines share.
#SBATCH --job-name=bert-pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
# Sends SIGTERM to the processes 5 minutes before the time limit, so that the run
# saves and ends with status 143.
#SBATCH --signal=TERM@300
#SBATCH --requeue
set -euo pipefail

HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd, -)
# Jobs on the same machines use different ports.
PORT=$((20000 + SLURM_JOB_ID % 20000))
export HOSTS PORT
status=0
srun python deploy/cluster_entrypoint.py \
  bert-tf pretrain --distribution=multi_worker --do_train "$@" || status=$?
# The run goes on when the job starts again. After `scancel JOB` it does not, since
# that ends this script too.
if ((status == 143)); then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
