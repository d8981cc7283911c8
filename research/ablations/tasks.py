"""The fine-tuning tasks: their data, cut to size, and their settings."""

import dataclasses
import itertools
import json
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

from absl import logging

from bert_tf.files import atomic, json_files, paths
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.squad import config as squad_config
from bert_tf.training import config as training_config
from research.ablations import config as config_lib
from research.ablations import runs, text

# Which examples are taken does not depend on the run.
_SEED = 12345

_EVAL_BATCH_SIZE = 64


@dataclasses.dataclass(frozen=True)
class TaskData:
  """Where a task's data are, and what is reported of it."""

  flag: str  # The setting that names its folder.
  files: tuple[tuple[str, str], ...]  # Training and development set.
  result: str  # The one that tables have.
  cut: Callable[[str, int], Iterable[str]]  # Pieces of a file of fewer.


@dataclasses.dataclass(frozen=True)
class TaskFiles:
  """A training and a development file."""

  train: str
  dev: str

  @property
  def hashes(self) -> dict[str, str]:
    """The files' hashes by split."""
    return {
      "train": text.file_hash(self.train),
      "dev": text.file_hash(self.dev),
    }


def _cut_rows(path: str, count: int) -> Iterable[str]:
  """Yields a table's header and some of its rows."""
  header, *rows = paths.read_text(path).splitlines(keepends=True)
  taken = sorted(_sample(len(rows), count))
  yield header
  yield from (rows[i] for i in taken)


def _cut_questions(path: str, count: int) -> Iterable[str]:
  """Yields SQuAD JSON with the questions of some paragraphs."""
  content = json_files.read_object(path)
  articles = content["data"]
  places = [
    (a, p)
    for a, one in enumerate(articles)
    for p in range(len(one["paragraphs"]))
  ]
  random.Random(_SEED).shuffle(places)
  taken: dict[int, list[int]] = {}
  num_left = count
  for a, p in places:
    num_questions = len(articles[a]["paragraphs"][p]["qas"])
    if num_questions <= num_left:
      taken.setdefault(a, []).append(p)
      num_left -= num_questions
  data = [
    {**articles[a], "paragraphs": [articles[a]["paragraphs"][p] for p in ps]}
    for a, ps in sorted(taken.items())
  ]
  yield json.dumps({**content, "data": data})


def _cut_sentences(path: str, count: int) -> Iterable[str]:
  """Yields CoNLL lines of some sentences."""
  lines = paths.read_text(path).splitlines(keepends=True)
  groups = itertools.groupby(lines, key=lambda line: bool(line.strip()))
  sentences = [list(group) for is_text, group in groups if is_text]
  sentences = [s for s in sentences if not s[0].startswith("-DOCSTART-")]
  for i in sorted(_sample(len(sentences), count)):
    yield from sentences[i]
    yield "\n"


def _sample(size: int, count: int) -> list[int]:
  return random.Random(_SEED).sample(range(size), min(size, count))


def _glue(name: str, dev: str = "dev.tsv") -> TaskData:
  files = ((os.path.join(name, "train.tsv"), os.path.join(name, dev)),)
  return TaskData("glue_dir", files, "eval_accuracy", _cut_rows)


TASKS = {
  "MNLI": _glue("MNLI", "dev_matched.tsv"),
  "QNLI": _glue("QNLI"),
  "MRPC": _glue("MRPC"),
  "SST-2": _glue("SST-2"),
  "SQuAD": TaskData(
    "squad_dir", (("train-v1.1.json", "dev-v1.1.json"),), "f1", _cut_questions
  ),
  "NER": TaskData(
    "conll_dir",
    (("eng.train", "eng.testa"), ("train.txt", "dev.txt")),
    "f1",
    _cut_sentences,
  ),
}


def find(config: config_lib.AblationsConfig) -> dict[str, TaskFiles]:
  """Returns the tasks whose data are there; logs what is left out."""
  found, missing = {}, {}
  for name, task in TASKS.items():
    folder = getattr(config, task.flag)
    pairs = [
      TaskFiles(*(os.path.join(folder, file) for file in pair))
      for pair in task.files
      if folder
    ]
    whole = [p for p in pairs if paths.exists(p.train) and paths.exists(p.dev)]
    if whole:
      found[name] = whole[0]
    elif config.chosen_scale.fine_tuning(name):
      missing[name] = pairs[0].train if pairs else f"`{task.flag}`"
  for name, what in missing.items():
    logging.warning("%s is left out: there is no %s.", name, what)
  return found


def cut(
  name: str, files: TaskFiles, num_examples: int | None, folder: str
) -> TaskFiles:
  """Returns the files with at most so many examples each, made if missing.

  They lie in a folder that is named by what they are cut from, so that other
  data under the same paths are cut anew.
  """
  if num_examples is None:
    return files
  source = runs.digest(files.hashes)
  folder = os.path.join(folder, f"{name}-{num_examples}-{source}")
  parts = []
  for path in (files.train, files.dev):
    part = os.path.join(folder, os.path.basename(path))
    if not paths.exists(part):
      atomic.write(part, TASKS[name].cut(path, num_examples))
    parts.append(part)
  return TaskFiles(*parts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The pre-trained model that a fine-tuning starts from."""

  bert_config_file: str
  vocab_file: str
  init_checkpoint: str
  feature_dir: str  # Where vectors are kept that several runs share.


def train(
  fine_tuning: runs.FineTuning,
  seed: int,
  files: TaskFiles,
  model: Model,
  output_dir: str,
) -> dict[str, float | int] | None:
  """Fine-tunes and evaluates; returns the results, None after a signal."""
  task_module, config = _config(
    fine_tuning, files, _common(fine_tuning, seed, model, output_dir), model
  )
  return task_module.run(config)


def _common(
  fine_tuning: runs.FineTuning, seed: int, model: Model, output_dir: str
) -> dict[str, Any]:
  """Returns the settings that all tasks have."""
  more = {"bilstm": True} if fine_tuning.has_bilstm else {}
  return {
    "bert_config_file": model.bert_config_file,
    "vocab_file": model.vocab_file,
    "do_lower_case": True,
    "max_seq_length": fine_tuning.max_seq_length,
    "do_train": True,
    "num_train_epochs": fine_tuning.num_train_epochs,
    "eval_batch_size": _EVAL_BATCH_SIZE,
    "predict_batch_size": _EVAL_BATCH_SIZE,
    "train": training_config.FineTuningTrainConfig(
      init_checkpoint=model.init_checkpoint,
      output_dir=output_dir,
      train_batch_size=fine_tuning.train_batch_size,
      learning_rate=fine_tuning.learning_rate,
      seed=seed,
      keep_checkpoint_max=1,
    ),
    **more,
  }


def _config(
  fine_tuning: runs.FineTuning,
  files: TaskFiles,
  common: dict[str, Any],
  model: Model,
) -> tuple[Any, Any]:
  """Returns the task's module and its settings."""
  if fine_tuning.task == "SQuAD":
    from bert_tf.tasks.squad import task as squad_task

    return squad_task, squad_config.SquadConfig(
      train_file=files.train,
      predict_file=files.dev,
      do_predict=True,
      doc_stride=max(1, fine_tuning.max_seq_length // 3),
      max_query_length=max(1, fine_tuning.max_seq_length // 4),
      cut_padding=True,
      **common,
    )
  if fine_tuning.task == "NER":
    from bert_tf.tasks.ner import task as ner_task

    layers = fine_tuning.feature_layers
    more: dict[str, Any] = {}
    if layers:
      more = {"approach": "features", "feature_layers": layers}
    return ner_task, ner_config.NerConfig(
      train_file=files.train,
      dev_file=files.dev,
      do_eval=True,
      feature_dir=model.feature_dir if layers else None,
      **common,
      **more,
    )
  from bert_tf.tasks.classification import task as classification_task

  return classification_task, classification_config.ClassificationConfig(
    data_dir=os.path.dirname(files.train),
    task_name=fine_tuning.task,
    do_eval=True,
    **common,
  )


def score(
  fine_tuning: runs.FineTuning, results: dict[str, float | int]
) -> float:
  """Returns the result that tables have, as a percentage."""
  value = float(results[TASKS[fine_tuning.task].result])
  return value if fine_tuning.task == "SQuAD" else 100 * value
