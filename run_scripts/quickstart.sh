#!/usr/bin/env bash
# Pre-trains a small BERT on Python's documentation, from scratch:
#
#   bash run_scripts/quickstart.sh [FOLDER]
#
# Uses the Python on PATH if it has bert_tf, else installs it into an environment
# of 2.6 GB. Writes all files to FOLDER (default: quickstart in the
# checkout). A second run reuses finished files.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install plots bert_tf
if ! "$python" -c "import matplotlib" 2>/dev/null; then
  echo "Adding matplotlib to it, for the curves ..."
  "$python" -m pip install --quiet --disable-pip-version-check matplotlib
fi

folder=${1:-$root/quickstart}
start=$SECONDS
echo "Trains for three minutes. Two quiet cores then predict a fraction of 0.30 to
0.35 of the masked words of held-out text (masked_lm_accuracy); busy ones less."
"$python" -m bert_tf pretrain --text=pydoc \
  --pydoc_packages=tensorflow,keras,numpy,scipy,sklearn \
  --size=tiny --train_minutes=3 --max_seq_length=64 --output_dir="$folder"

echo
"$python" -m bert_tf fill-mask --model="$folder" \
  --text="This function [MASK] a list of strings." \
  --text="If the file does not exist, an error is [MASK]."

cat <<END

On held-out text:
$(sed 's/^/  /' "$folder/eval_results.txt")

In $folder, after $((SECONDS - start)) s:
  curves.png     loss and accuracies by step
  saved_model/1  the model for serving
  model.ckpt-*   checkpoints, vocab.txt, bert_config.json
  data/          sentences, vocabulary and records

Next (first . $root/.venv/bin/activate, if it exists):
  - other masks:   bert-tf fill-mask --model=$folder --text=...
  - train longer:  the same command of pretrain, with --train_minutes=30
  - your own text: bert-tf pretrain --text=text.jsonl.gz --train_hours=8 --output_dir=...
  - a classifier:  "Try it" in $root/README.md, from a model that has read more
END
