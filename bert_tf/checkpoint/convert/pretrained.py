"""A BERT model independent of file formats, and the files beside its weights.

Every format is read into a `Pretrained` and written from one.
"""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import modeling, task_registry
from bert_tf.checkpoint import (
  checkpoint_names,
  checkpoints,
  run_info,
  sentence_transformers,
)
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import json_files, messages, paths, tokenizer_files
from bert_tf.model import heads


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model: config, tensors, task, labels and vocabulary."""

  config: modeling.BertConfig
  # float32 arrays of encoder, pooler and heads, by the original's names.
  tensors: Mapping[str, np.ndarray]
  # The task, the labels and the settings of the tokenizer, if known.
  run: run_info.RunInfo
  vocab: bytes | None  # The content of vocab.txt.
  # The files of a sentence encoder, by path, which give its pooling.
  encoder_files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

  @property
  def own_heads(self) -> tuple[heads.Head, ...]:
    """The heads that the model has tensors for."""
    return heads.find_heads(self.tensors, self.run.task)

  @property
  def num_labels(self) -> int:
    """The number of outputs of `output_weights`; 0 without this head."""
    return len(self.tensors.get("output_bias", ()))


def read(files: ModelFolder) -> Pretrained:
  """Reads a model of any format, without an optimizer's state.

  Its task is the one that the heads among the tensors belong to. A warning
  names tensors that BERT does not have, which are left out.

  Raises:
    ValueError: if tensors are missing, or have a wrong shape or dtype, if the
      user's do_lower_case contradicts the vocabulary, or if the head has
      another number of labels.
  """
  expected = _expected_tensors(files)
  missing = [name for name in expected if name not in files.shapes]
  reader = files.reader
  assert reader
  checkpoint_names.check_fits(reader.path, reader.shapes, expected, missing)
  names = checkpoint_names.parameters(reader.shapes)
  if left_out := sorted({*names} - expected.keys()):
    logging.warning(
      "%s: BERT has no %s, so they are left out.",
      reader.path,
      messages.join_names(left_out),
    )
  tensors = {
    name: np.asarray(reader.get_floats(name), np.float32) for name in expected
  }
  if files.vocab_file:
    tokenizer_files.warn_of_differing(files.vocab_file)
  run = files.saved or run_info.RunInfo(task=task_registry.ENCODER.name)
  settings = dataclasses.replace(run.settings, **vars(files.case))
  run = dataclasses.replace(run, settings=settings)
  # Only the user knows the head of a task that is not registered.
  if run.task in task_registry.TASKS:
    model = heads.find_model(files.heads, run.task)
    task = task_registry.TASKS[model.task] if model else task_registry.ENCODER
    labels = run.labels if task.label_defaults else None
    run = dataclasses.replace(run, task=task.name, labels=labels)
  encoder_files = sentence_transformers.read_files(files.folder)
  pretrained = Pretrained(
    files.config, tensors, run, files.vocab_content, encoder_files
  )
  if run.labels and run.labels.num_outputs != pretrained.num_labels:
    raise ValueError(
      f"{len(run.labels.labels)} labels are saved beside {files.weights}, but "
      f"its head has {pretrained.num_labels} outputs."
    )
  return pretrained


def _expected_tensors(files: ModelFolder) -> dict[str, tf.TensorSpec]:
  """Returns what a model's config and heads imply, by the original's names."""
  config, num_labels = files.config, files.shapes.get("output_bias", (0,))[0]
  with tf.Graph().as_default():  # Names and shapes only: no memory.
    weights = modeling.BertModel(config).weights
  sizes: dict[int | str, int]
  sizes = {"D": config.hidden_size, "V": config.vocab_size, "C": num_labels}
  return {v.path: tf.TensorSpec(v.shape) for v in weights} | {
    name: tf.TensorSpec([int(sizes.get(n, n)) for n in shape])
    for head in files.heads
    for name, shape in head.shapes.items()
  }


def write(model: Pretrained, path: str) -> None:
  """Writes a checkpoint of the original, and the other files beside it."""
  write_files(os.path.dirname(path) or ".", model)
  checkpoints.write(path, model.tensors)


def write_files(folder: str, model: Pretrained) -> None:
  """Writes run.json, the config and other known files beside the weights.

  Raises:
    ValueError: if the folder has files of another model.
  """
  contents = run_info.describe(model.run, model.config, model.vocab)
  write_contents(folder, {**model.encoder_files, **contents})


def write_contents(folder: str, contents: Mapping[str, bytes]) -> None:
  """Writes files beside the weights, by name; raises as `write_files`."""
  check_contents(folder, contents)
  run_info.write_files(folder, contents)


def check_contents(folder: str, contents: Mapping[str, bytes]) -> None:
  """Raises ValueError if a file of the folder exists with other content."""
  for name, content in contents.items():
    path = os.path.join(folder, name)
    if not paths.exists(path) or (there := paths.read_bytes(path)) == content:
      continue
    keys: list[str] = []
    if name.endswith(".json"):  # Equal values may be written differently.
      old, new = (json_files.parse(text, path) for text in (there, content))
      if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
      if old == new or keys == ["bert_tf_version"]:
        continue
    differs = f" ({messages.join_names(keys)} differ)" if keys else ""
    raise ValueError(
      f"{path} belongs to another model{differs}; choose another "
      "`output_checkpoint`."
    )
