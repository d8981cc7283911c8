"""Writes the model card of a pre-trained model: README.md in its folder."""

import dataclasses
import itertools
import os
import random
import re
import shlex
from collections.abc import Mapping, Sequence

from absl import logging

import bert_tf
from bert_tf import settings, tokenization
from bert_tf.files import atomic, paths, shard_files, text_lines
from bert_tf.inference import predictor
from bert_tf.pipeline.config import PipelineConfig
from bert_tf.pipeline.model import Model
from bert_tf.text.sources import InputFile
from bert_tf.text.vocabulary import Coverage
from bert_tf.training import objective as objective_lib

FILE = "README.md"
CURVES_FILE = "curves.png"
EXPORT_DIR = os.path.join("saved_model", "1")

# A model is useful if its accuracy exceeds the fraction of the most frequent
# word piece by this much.
_MIN_ABOVE_CHANCE = 0.05

_RESULTS = """\
masked_lm_accuracy is the fraction of masked word pieces that the model guesses,
and masked_lm_loss its mean surprise in nats. perplexity, e to the power of this
loss, is the number of pieces between which the model hesitates at a mask."""

_USE = """\
## Use

In this folder:

```shell
bert-tf fill-mask --model=. --text="... [MASK] ..."
bert-tf classifier --model=. --task_name=csv --data_dir=DATA \\
  --do_train --do_eval --output_dir=OUT
bert-tf serve --model=saved_model/1 --port=8501
```
"""


def write(
  config: PipelineConfig,
  model: Model,
  inputs: Sequence[InputFile],
  coverage: Coverage,
  results: Mapping[str, float | int],
) -> None:
  """Writes the model card; warns if the results by name are near chance."""
  language, size = config.reading.language, model.size
  title, start = f"BERT {model.name}, {language}", size.initial_values
  if config.model:
    title = f"{model_name(config)}, pre-trained further, {language}"
    start = f"those of `{model_name(config)}` ({model.name})"
  nsp = "" if size.no_nsp else " and next-sentence prediction"
  report = shard_files.read_settings(config.file("train.txt.report.json"))
  counts = report["counts"]
  vocab = tokenization.load_vocab(config.file("vocab.txt"))
  accuracy = results["masked_lm_accuracy"]
  chance = coverage.num_most_frequent / coverage.num_pieces
  verdict = (
    "Always guessing the most frequent word piece would give a "
    f"masked_lm_accuracy of about {chance:.2g}."
  )
  if accuracy < chance + _MIN_ABOVE_CHANCE:
    verdict += f" The model's {accuracy:.3g} is hardly better; train longer."
    logging.warning(verdict)
  lines = [
    f"# {title}",
    "",
    f"Pre-trained with bert_tf {bert_tf.__version__}. Objective: masked "
    f"language model ({size.masked_lm_prob:.0%} of the words){nsp}.",
    *("", "## Data", "", "| file | bytes | SHA-256 |", "|---|---|---|"),
  ]
  for source in inputs:
    lines.append(
      f"| {os.path.basename(source.path)} | {paths.num_bytes(source.path):,} "
      f"| `{paths.sha256(source.path)}` |"
    )
  lines += [
    "",
    f"{counts['documents']:,} documents with {counts['sentences']:,} sentences "
    f"and {counts['characters']:,} characters. {counts['eval_documents']:,} of "
    "the documents are held out for evaluation.",
    "",
    f"The vocabulary has {len(vocab):,} entries. Held-out words have "
    f"{coverage.pieces_per_word:.2f} pieces on average; "
    f"{coverage.unknown_fraction:.2%} are unknown.",
    *("", "## Training", ""),
    f"{config.train_seconds / 60:g} min, {results['global_step']:,} steps "
    f"of {size.train_batch_size} sequences of {config.max_seq_length} word "
    f"pieces, learning rate {size.learning_rate:g}, initial values {start}, "
    f"seed {config.seed}. `commands.jsonl` lists all settings.",
    *("", "```shell", _command(config), "```", ""),
    *("Results on held-out documents:", "", "| | |", "|---|---|"),
    *(f"| {n} | {v:.5g} |" for n, v in objective_lib.shown(results).items()),
    *("", _RESULTS, "", verdict, "", *_examples(config), ""),
    *(f"![learning curves]({CURVES_FILE})", "", _USE.rstrip()),
  ]
  atomic.write_lines(os.path.join(config.output_dir, FILE), lines)


def _examples(config: PipelineConfig) -> list[str]:
  model = predictor.Predictor(config.output_dir, top_k=3)
  tokenize = model.task().tokenizer.tokenize_to_ids
  rng = random.Random(config.seed)
  pattern = r"\w" if config.has_many_characters else r"\w+"
  chosen = []
  lines = text_lines.read_lines(config.file("held_out.txt"))
  for line in itertools.islice(lines, 1000):
    is_short = len(tokenize(line)) <= config.max_seq_length - 2
    words = [*re.finditer(pattern, line)]
    whole = [word for word in words if len(tokenize(word[0])) == 1]
    if whole and is_short and 5 < len(words) < 25:
      chosen.append(rng.choice(whole))
  chosen = rng.sample(chosen, min(5, len(chosen)))
  parts = [(w.string[: w.start()], w.string[w.end() :]) for w in chosen]
  texts = [tokenization.MASK.join(part) for part in parts]
  table = ["| held-out text | word | predictions |", "|---|---|---|"]
  for word, text, answer in zip(chosen, texts, model.predict(texts)):
    guesses = " ".join(f"`{guess['token']}`" for guess in answer["masks"][0])
    cells = [c.replace("|", "\\|") for c in (text, word[0], guesses)]
    table.append(f"| {' | '.join(cells)} |")
  return table


def model_name(config: PipelineConfig) -> str:
  """Returns the name of the model to continue, the last part of its path."""
  assert config.model
  return os.path.basename(os.path.abspath(config.model))


def _command(config: PipelineConfig) -> str:
  flags = [
    f"--{field.name}={shlex.quote(str(value))}"
    for part in (config, config.reading, config.compute)
    for field in dataclasses.fields(part)
    if settings.get_setting(field)
    and (value := getattr(part, field.name)) != field.default
  ]
  return " \\\n  ".join(["bert-tf pretrain", *flags])
