"""Writes the model card of a pre-trained model: README.md in its folder."""

import dataclasses
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

import bert_tf
from bert_tf import settings, tokenization
from bert_tf.corpora import sources
from bert_tf.files import atomic, paths, shard_files, text_lines
from bert_tf.inference import predictor
from bert_tf.pipeline import config as pipeline_config
from bert_tf.pipeline import text_steps

FILE = "README.md"
CURVES_FILE = "curves.png"
EXPORT_DIR = os.path.join("saved_model", "1")

_NUM_EXAMPLES = 3
_WORDS = range(6, 21)  # Allowed words and marks of an example sentence.

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
  lines = [
    *_introduction(config),
    "",
    *_data_section(config, inputs),
    *_training_section(config, results),
    *_examples_section(config),
    *_USE.split("\n"),
    *_limits_section(config),
  ]
  atomic.write_lines(os.path.join(config.output_dir, FILE), lines)


def model_name(config: pipeline_config.PipelineConfig) -> str:
  """Returns the name of the model to continue, the last part of its path."""
  assert config.model
  return os.path.basename(os.path.abspath(config.model))


def _introduction(config: pipeline_config.PipelineConfig) -> Iterator[str]:
  """Yields the title and a sentence about the model's origin."""
  language, size = config.reading.language, config.model_size
  title, origin = f"BERT {config.size_name}, {language}", "from scratch"
  if config.model:
    name = model_name(config)
    title = f"{name}, pre-trained further, {language}"
    origin = f"further from `{name}` ({config.size_name}, its vocabulary)"
  objectives = f"masked language model ({size.masked_lm_prob:.0%} of the words)"
  if not size.no_nsp:
    objectives += " and next-sentence prediction"
  yield from (f"# {title}", "")
  yield (
    f"Pre-trained {origin} with bert_tf {bert_tf.__version__} on the data "
    f"below. Objective: {objectives}."
  )


def _data_section(
  config: pipeline_config.PipelineConfig, inputs: Sequence[sources.InputFile]
) -> Iterator[str]:
  """Yields the section about the training data, with hashes of the files."""
  yield from ("## Data", "", "| file | bytes | SHA-256 |", "|---|---|---|")
  for source in inputs:
    size = paths.num_bytes(source.path)
    name = os.path.basename(source.path)
    yield f"| {name} | {size:,} | `{paths.sha256(source.path)}` |"
  report = shard_files.read_settings(config.file("train.txt.report.json"))
  counts = report.get("counts", {})
  totals = ", ".join(f"{value:,} {name}" for name, value in counts.items())
  vocab = tokenization.load_vocab(config.file("vocab.txt"))
  coverage = text_steps.measure_coverage(config)
  yield from ("", f"{totals}.", "")
  yield (
    f"The vocabulary has {len(vocab):,} entries. Held-out words have "
    f"{coverage.pieces_per_word:.2f} pieces on average; "
    f"{coverage.unknown_share:.2%} are unknown."
  )
  yield ""


def _training_section(
  config: pipeline_config.PipelineConfig, results: Mapping[str, float | int]
) -> Iterator[str]:
  """Yields the section about training: settings and results."""
  size = config.model_size
  start = f"`{model_name(config)}`" if config.model else size.initial_values
  yield from ("## Training", "")
  yield (
    f"{config.train_seconds / 60:g} minutes, "
    f"{results['global_step']:,} steps of {size.train_batch_size} sequences of "
    f"{config.max_seq_length} word pieces, learning rate "
    f"{size.learning_rate:g}, initial values "
    f"{'those of ' if config.model else ''}{start}, seed "
    f"{config.seed}. `commands.jsonl` lists all settings."
  )
  yield from ("", "```shell", _command(config), "```")
  yield from ("", "Results on held-out documents:", "", "| | |", "|---|---|")
  for name, value in results.items():
    yield f"| {name} | {value:.5g} |"
  yield from ("", f"![learning curves]({CURVES_FILE})", "")


def _command(config: pipeline_config.PipelineConfig) -> str:
  """Returns the training command, with the settings that are not defaults."""
  flags = [
    f"--{field.name}={shlex.quote(str(value))}"
    for part in (config, config.reading, config.compute)
    for field in dataclasses.fields(part)
    if settings.get_setting(field)
    and (value := getattr(part, field.name)) != field.default
  ]
  return " \\\n  ".join(["bert-tf pretrain", *flags])


def _examples_section(
  config: pipeline_config.PipelineConfig,
) -> Iterator[str]:
  """Yields a table of held-out sentences, masked words and predictions."""
  yield from ("## Examples", "", "| held-out text | word | predictions |")
  yield "|---|---|---|"
  rows = list(_masked_sentences(config))
  model = predictor.Predictor(config.output_dir)
  for row, answer in zip(rows, model.predict([text for text, _ in rows])):
    tokens = ", ".join(p["token"] for p in answer["masks"][0][:3])
    cells = [cell.replace("|", "\\|") for cell in (*row, tokens)]
    yield f"| {' | '.join(cells)} |"
  yield ""


def _masked_sentences(
  config: pipeline_config.PipelineConfig,
) -> Iterator[tuple[str, str]]:
  """Yields held-out sentences with the middle word masked, and that word.

  Takes the first _NUM_EXAMPLES sentences of suitable length.
  """
  num_left = _NUM_EXAMPLES
  for sentence in text_lines.read_lines(config.file("held_out.txt")):
    words = list(_word_spans(sentence))
    start, end = words[len(words) // 2] if words else (0, 0)
    if len(words) in _WORDS and sentence[start:end].isalpha():
      yield f"{sentence[:start]}[MASK]{sentence[end:]}", sentence[start:end]
      num_left -= 1
    if not num_left:
      return


def _word_spans(sentence: str) -> Iterator[tuple[int, int]]:
  """Yields start and end of words, Chinese characters and punctuation."""
  start = 0
  for i, char in enumerate(f"{sentence} "):
    is_space = char.isspace()
    if is_space or tokenization.is_own_token(char):
      if start < i:
        yield start, i
      start = i + 1
      if not is_space:
        yield i, start


def _limits_section(config: pipeline_config.PipelineConfig) -> Iterator[str]:
  case = "lower-cased" if config.is_lower_case else "cased"
  advice = (
    "A model trained for minutes knows frequent words and little of their "
    "meaning."
  )
  if config.model:
    advice = f"The limits of `{model_name(config)}` apply as well."
  yield from ("## Limits", "")
  yield (
    f"Trained on {case} text like the above, in sequences of up to "
    f"{config.max_seq_length} word pieces. It may repeat false or offensive "
    f"statements from this text. {advice}"
  )
