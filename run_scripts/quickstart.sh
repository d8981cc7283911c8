#!/usr/bin/env bash
# Pre-trains a small BERT on Python's own documentation, from nothing:
#
#   bash run_scripts/quickstart.sh [FOLDER]
#
# Everything is written to FOLDER (default: quickstart in the checkout). A
# second run reuses the finished files.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install plots

folder=${1:-$root/quickstart}
mkdir -p "$folder"
cd "$folder"
start=$SECONDS

script() {
  local name=$1
  shift
  "$python" "$root/run_scripts/$name" "$@"
}

# make FILE COMMAND...: runs the command unless FILE exists and no earlier step
# ran anew.
made_anew=false
make() {
  local file=$1
  shift
  if $made_anew || [[ ! -e $file ]]; then
    made_anew=true
    echo
    echo "== $file ($((SECONDS - start)) s)"
    "$@"
  fi
}

make train.txt script build_corpus.py --input_file=pydoc \
  --pydoc_packages=tensorflow,keras,numpy,scipy,sklearn \
  --output_file=train.txt --eval_output_file=eval.txt --eval_fraction=0.1
make vocab.txt script build_vocab.py --input_file=train.txt \
  --output_file=vocab.txt --vocab_size=8000

data_flags=(--vocab_file=vocab.txt --max_seq_length=64
  --max_predictions_per_seq=10)
make train.tfrecord script create_pretraining_data.py "${data_flags[@]}" \
  --input_file=train.txt --output_file=train.tfrecord --dupe_factor=5
make eval.tfrecord script create_pretraining_data.py "${data_flags[@]}" \
  --input_file=eval.txt --output_file=eval.tfrecord --dupe_factor=1

# The size of BERT-Tiny. Its matrices start wider than BERT's 0.02, which is
# for 768 columns, and there is no dropout: a few minutes do not overfit.
write_config() {
  cat > bert_config.json.tmp <<JSON
{
  "vocab_size": $(wc -l < vocab.txt),
  "hidden_size": 128,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 512,
  "max_position_embeddings": 512,
  "type_vocab_size": 2,
  "initializer_range": 0.088,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0
}
JSON
  mv bert_config.json.tmp bert_config.json
}
make bert_config.json write_config

# A half-trained model of older data must not be continued.
if $made_anew; then rm -rf model; fi
make model/eval_results.txt script run_pretraining.py \
  --bert_config_file=bert_config.json --vocab_file=vocab.txt \
  --input_file=train.tfrecord --eval_input_file=eval.tfrecord \
  --max_seq_length=64 --max_predictions_per_seq=10 \
  --do_train --train_batch_size=32 --learning_rate=1e-3 \
  --num_train_steps=5000 --num_warmup_steps=250 --log_every_steps=250 \
  --do_eval --eval_batch_size=64 --max_eval_steps=100 --output_dir=model
make learning_curve.png script plot_curves.py --output_dir=model \
  --plot_file=learning_curve.png

checkpoint=model/$(sed -n 's/^model_checkpoint_path: "\(.*\)"/\1/p' \
  model/checkpoint)
echo
script fill_mask.py --bert_config_file=bert_config.json \
  --vocab_file=vocab.txt --init_checkpoint="$checkpoint" \
  --text="This function [MASK] a list of strings." \
  --text="If the file does not exist, an error is [MASK]."

cat <<END

On text that was held out:
$(sed 's/^/  /' model/eval_results.txt)

In $PWD, after $((SECONDS - start)) s:
  train.txt, eval.txt            the text, one sentence a line
  vocab.txt                      its word pieces
  train.tfrecord, eval.tfrecord  instances with masks
  model/                         checkpoints and TensorBoard events
  learning_curve.png             loss and accuracies by step

Next:
  - other text:     change --input_file of build_corpus.py or, where it is one
                    sentence a line already, of build_vocab.py
  - train longer:   run_pretraining.py with a larger --num_train_steps goes on
                    from the newest checkpoint
  - your own masks: $python $root/run_scripts/fill_mask.py --help
END
