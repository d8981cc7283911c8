"""Fine-tuning tasks: their data, cut to size, and their settings."""

import dataclasses
import functools
import itertools
import json
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

from absl import logging

from bert_tf.files import atomic, json_files, paths, text_lines
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.squad import config as squad_config
from bert_tf.training import config as training_config
from research import bilstm, rows
from research.ablations import config as config_lib
from research.ablations import runs
from research.features import config as features_config
from research.features import task as features_task

# All runs of a task use the same examples.
_SEED = 12345

_EVAL_BATCH_SIZE = 64


@dataclasses.dataclass(frozen=True)
class Task:
  """Location of a task's data, and its reported metric."""

  flag: str  # The setting with the folder of the data.
  # Pairs of train and dev file. The first pair that exists is used.
  files: tuple[tuple[str, str], ...]
  result: str  # Name of the reported metric.
  # Yields the text of a smaller file, from a path and a number of examples.
  cut: Callable[[str, int], Iterable[str]]


@dataclasses.dataclass(frozen=True)
class TaskFiles:
  """A training and a development file."""

  train: str
  dev: str

  @functools.cached_property
  def hashes(self) -> dict[str, str]:
    """The hash of each file, by split."""
    return {
      "train": rows.file_hash(self.train),
      "dev": rows.file_hash(self.dev),
    }


def _cut_rows(path: str, count: int) -> Iterable[str]:
  """Yields the header and at most `count` random rows of a table."""
  header, *lines = text_lines.read_text(path).splitlines(keepends=True)
  yield header
  yield from (lines[i] for i in _sample(len(lines), count))


def _cut_questions(path: str, count: int) -> Iterable[str]:
  """Yields SQuAD JSON: random paragraphs with at most `count` questions."""
  content = json_files.read_object(path)
  articles = content["data"]
  places = [
    (a, p)
    for a, article in enumerate(articles)
    for p in range(len(article["paragraphs"]))
  ]
  random.Random(_SEED).shuffle(places)
  taken: dict[int, list[int]] = {}
  for a, p in places:
    num_questions = len(articles[a]["paragraphs"][p]["qas"])
    if num_questions <= count:
      taken.setdefault(a, []).append(p)
      count -= num_questions
  data = [
    {**articles[a], "paragraphs": [articles[a]["paragraphs"][p] for p in ps]}
    for a, ps in sorted(taken.items())
  ]
  yield json.dumps({**content, "data": data})


def _cut_sentences(path: str, count: int) -> Iterable[str]:
  """Yields the CoNLL lines of at most `count` random sentences."""
  lines = text_lines.read_text(path).splitlines(keepends=True)
  groups = itertools.groupby(lines, key=lambda line: bool(line.strip()))
  sentences = [list(group) for is_text, group in groups if is_text]
  sentences = [s for s in sentences if not s[0].startswith("-DOCSTART-")]
  for i in _sample(len(sentences), count):
    yield from sentences[i]
    yield "\n"


def _sample(size: int, count: int) -> list[int]:
  """Returns at most `count` random indices below `size`, sorted."""
  return sorted(random.Random(_SEED).sample(range(size), min(size, count)))


def _glue(name: str, dev: str = "dev.tsv") -> Task:
  files = ((os.path.join(name, "train.tsv"), os.path.join(name, dev)),)
  return Task("glue_dir", files, "eval_accuracy", _cut_rows)


TASKS = {
  "MNLI": _glue("MNLI", "dev_matched.tsv"),
  "QNLI": _glue("QNLI"),
  "MRPC": _glue("MRPC"),
  "SST-2": _glue("SST-2"),
  "SQuAD": Task(
    "squad_dir", (("train-v1.1.json", "dev-v1.1.json"),), "f1", _cut_questions
  ),
  "NER": Task(
    "conll_dir",
    (("eng.train", "eng.testa"), ("train.txt", "dev.txt")),
    "f1",
    _cut_sentences,
  ),
}


def find(config: config_lib.AblationsConfig) -> dict[str, TaskFiles]:
  """Returns the tasks that have data; warns if the scale needs another one."""
  task_files: dict[str, TaskFiles] = {}
  for name, task in TASKS.items():
    folder = getattr(config, task.flag)
    candidates = [
      [os.path.join(folder, file) for file in pair]
      for pair in task.files
      if folder
    ]
    existing = [pair for pair in candidates if all(map(paths.exists, pair))]
    if existing:
      task_files[name] = TaskFiles(*existing[0])
    elif config.chosen_scale.fine_tuning(name):
      missing = candidates[0][0] if candidates else f"`{task.flag}`"
      logging.warning("%s is left out: there is no %s.", name, missing)
  return task_files


def cut(
  name: str, files: TaskFiles, num_examples: int | None, folder: str
) -> TaskFiles:
  """Returns files with at most `num_examples` examples each; None for all.

  Creates missing files. The folder name contains a hash of the full files, so
  that changed files are cut again.
  """
  if num_examples is None:
    return files
  source = rows.digest(files.hashes)
  folder = os.path.join(folder, f"{name}-{num_examples}-{source}")
  parts = []
  for path in (files.train, files.dev):
    part = os.path.join(folder, os.path.basename(path))
    if not paths.exists(part):
      lines = TASKS[name].cut(path, num_examples)
      atomic.write_bytes(part, "".join(lines).encode())
    parts.append(part)
  return TaskFiles(*parts)


def train(
  settings: runs.FineTuning,
  seed: int,
  files: TaskFiles,
  bert_config_file: str,
  vocab_file: str,
  init_checkpoint: str,
  output_dir: str,
) -> dict[str, float | int] | None:
  """Fine-tunes and evaluates; returns the results, or None after a signal."""
  shared: dict[str, Any] = {
    "bert_config_file": bert_config_file,
    "vocab_file": vocab_file,
    "do_lower_case": True,
    "max_seq_length": settings.max_seq_length,
    "do_train": True,
    "num_train_epochs": settings.num_train_epochs,
    "eval_batch_size": _EVAL_BATCH_SIZE,
    "predict_batch_size": _EVAL_BATCH_SIZE,
    "train": training_config.FineTuningTrainConfig(
      init_checkpoint=init_checkpoint,
      output_dir=output_dir,
      train_batch_size=settings.train_batch_size,
      learning_rate=settings.learning_rate,
      seed=seed,
      keep_checkpoint_max=1,
    ),
  }
  run = bilstm.run if settings.has_bilstm else fine_tuning.run
  if settings.task == "SQuAD":
    questions = squad_config.SquadConfig(
      train_file=files.train,
      predict_file=files.dev,
      do_predict=True,
      doc_stride=max(1, settings.max_seq_length // 3),
      max_query_length=max(1, settings.max_seq_length // 4),
      cut_padding=True,
      **shared,
    )
    return run(questions)
  if settings.task == "NER":
    shared |= {"train_file": files.train, "dev_file": files.dev}
    shared["do_eval"] = True
    if layers := settings.feature_layers:
      return features_task.run(
        features_config.FeaturesConfig(feature_layers=layers, **shared)
      )
    return fine_tuning.run(ner_config.NerConfig(**shared))
  texts = classification_config.ClassificationConfig(
    data_dir=os.path.dirname(files.train),
    task_name=settings.task,
    do_eval=True,
    **shared,
  )
  return run(texts)
