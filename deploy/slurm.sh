#!/usr/bin/env bash
# Pre-training on several machines under Slurm, one process on each, from the
# checkout and with its environment active:
#
#   sbatch --nodes=4 deploy/slurm.sh --input_file=... --model=... --output_dir=...
#
# The output_dir must be a folder that all machines see.
#SBATCH --job-name=bert-pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
# GPUs of a machine, all used by its process:
# #SBATCH --gpus-per-node=4
# SIGTERM 5 minutes before the end: the run saves and ends with status 0.
#SBATCH --signal=TERM@300
#SBATCH --requeue
set -euo pipefail

HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd, -)
# Another job on the same machines gets another port.
PORT=$((20000 + SLURM_JOB_ID % 20000))
export HOSTS PORT
exec srun python deploy/cluster_entrypoint.py \
  bert-tf pretrain --distribution=multi_worker --do_train "$@"
