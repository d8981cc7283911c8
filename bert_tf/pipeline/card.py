"""Writes the model card of a pre-trained model: README.md in its folder."""

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence

import bert_tf
from bert_tf import settings, tokenization
from bert_tf.corpora import sources
from bert_tf.files import atomic, paths, shard_files
from bert_tf.pipeline import config as pipeline_config
from bert_tf.pipeline import text_steps

FILE = "README.md"
CURVES_FILE = "curves.png"
EXPORT_DIR = os.path.join("saved_model", "1")

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
  config: pipeline_config.PipelineConfig,
  inputs: Sequence[sources.InputFile],
  results: Mapping[str, float | int],
) -> None:
  """Writes the model card; `results` are evaluation results by name."""
  language, size = config.reading.language, config.model_size
  title, start = f"BERT {config.size_name}, {language}", size.initial_values
  if config.model:
    title = f"{model_name(config)}, pre-trained further, {language}"
    start = f"those of `{model_name(config)}` ({config.size_name})"
  nsp = "" if size.no_nsp else " and next-sentence prediction"
  report = shard_files.read_settings(config.file("train.txt.report.json"))
  counts = report.get("counts", {})
  vocab = tokenization.load_vocab(config.file("vocab.txt"))
  coverage = text_steps.measure_coverage(config)
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
    ", ".join(f"{value:,} {name}" for name, value in counts.items()) + ".",
    "",
    f"The vocabulary has {len(vocab):,} entries. Held-out words have "
    f"{coverage.pieces_per_word:.2f} pieces on average; "
    f"{coverage.unknown_share:.2%} are unknown.",
    *("", "## Training", ""),
    f"{config.train_seconds / 60:g} minutes, {results['global_step']:,} steps "
    f"of {size.train_batch_size} sequences of {config.max_seq_length} word "
    f"pieces, learning rate {size.learning_rate:g}, initial values {start}, "
    f"seed {config.seed}. `commands.jsonl` lists all settings.",
    *("", "```shell", _command(config), "```", ""),
    *("Results on held-out documents:", "", "| | |", "|---|---|"),
    *(f"| {name} | {value:.5g} |" for name, value in results.items()),
    *("", f"![learning curves]({CURVES_FILE})", ""),
    _USE.rstrip(),
  ]
  atomic.write_lines(os.path.join(config.output_dir, FILE), lines)


def model_name(config: pipeline_config.PipelineConfig) -> str:
  """The name of the model to continue, the last part of its path."""
  assert config.model
  return os.path.basename(os.path.abspath(config.model))


def _command(config: pipeline_config.PipelineConfig) -> str:
  flags = [
    f"--{field.name}={shlex.quote(str(value))}"
    for part in (config, config.reading, config.compute)
    for field in dataclasses.fields(part)
    if settings.get_setting(field)
    and (value := getattr(part, field.name)) != field.default
  ]
  return " \\\n  ".join(["bert-tf pretrain", *flags])
