"""A BERT model outside of any library: what every format is read into."""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import heads, model_folder, modeling, tokenization
from bert_tf.files import errors, paths
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.layers import bilstm
from bert_tf.model_folder import letter_case, run_info

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

POOLER = "bert/pooler/dense"

_FLOATS = ("bfloat16", "float16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Source:
  """A model to read, and what its user says of it."""

  # Prefix of a checkpoint or folder of a run (original, model_garden), folder
  # (hf) or .weights.h5 (keras).
  path: str
  # None for the bert_config.json beside it.
  bert_config_file: str | None = None
  vocab_file: str | None = None  # None for the vocab.txt beside it.
  # Whether the vocabulary is lower-cased; None for what the files beside it
  # say.
  do_lower_case: bool | None = None


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model with what belongs to it."""

  config: modeling.BertConfig
  # float32 arrays by the original's names: encoder, pooler and heads, without
  # an optimizer's slots.
  tensors: Mapping[str, np.ndarray]
  run: run_info.RunInfo  # What is known of its task, labels and tokenizer.
  vocab_file: str | None  # Its vocabulary, None if there is none.
  notes: tuple[str, ...] = ()  # What its user should know, a sentence each.

  @property
  def own_heads(self) -> tuple[heads.Head, ...]:
    """The heads that it has."""
    return heads_of(self.tensors, self.run.task)

  @property
  def num_labels(self) -> int:
    """How many outputs `output_weights` has, 0 without it."""
    return len(self.tensors.get("output_bias", ()))

  def vocab(self) -> dict[str, int]:
    """Returns token to id; nothing without a vocabulary."""
    return tokenization.load_vocab(self.vocab_file) if self.vocab_file else {}


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a format keeps one of the original's tensors."""

  name: str  # Its name there.
  shape: Shape  # Its shape there.
  # Whether rows are columns there. Otherwise the shapes may differ, but the
  # order of the numbers does not.
  is_transposed: bool = False

  def to_original(self, value: np.ndarray, shape: Shape) -> np.ndarray:
    """Returns the original's tensor, float32, for the one that is there."""
    value = value.T if self.is_transposed else value.reshape(shape)
    return np.ascontiguousarray(value, np.float32)

  def from_original(self, value: np.ndarray) -> np.ndarray:
    """Returns the tensor to keep there for the original's."""
    value = value.T if self.is_transposed else value.reshape(self.shape)
    return np.ascontiguousarray(value)


def heads_of(names: Collection[str], task: str) -> tuple[heads.Head, ...]:
  """Returns the heads that have variables among the original's names.

  Labels of the task "ner" are of words.
  """
  labels = heads.WORD_LABELS if task == "ner" else heads.TEXT_LABELS
  known = (heads.MASKED_LM, heads.NEXT_SENTENCE, heads.SPAN, labels)
  return tuple(
    head
    for head in (*known, heads.CHOICES)
    if any(name in head.shapes for name in names)
  )


def model_of(found: Sequence[heads.Head]) -> type[heads.HeadModel] | None:
  """Returns the model of this package with just these heads, None without."""
  kinds = (kind for kind in heads.MODELS if kind.heads == tuple(found))
  return next(kinds, None)


def task_of(found: Sequence[heads.Head]) -> str:
  """Returns the task of a model with just these heads, encoder without."""
  kind = model_of(found)
  return kind.task if kind else "encoder"


def names_of(found: Sequence[heads.Head]) -> str:
  """Returns the names of heads for a message."""
  return ", ".join(head.name for head in found)


def collect(
  found: Mapping[str, np.ndarray],
  shapes: Mapping[str, Shape],
  path: str,
  place_of: Callable[[str, Shape], Place] = Place,
) -> dict[str, np.ndarray]:
  """Returns the original's tensors for those of a file.

  Tensors that BERT does not have, such as another program's, are left out; a
  warning names them.

  Args:
    found: every tensor of the file, by the file's names.
    shapes: of the original's tensors that have to be there, by name.
    path: of the file, for the message.
    place_of: returns where the format keeps a tensor of that name and shape, by
      default under this name and in this shape.

  Raises:
    ValueError: naming every tensor that is missing or odd, and then every
      one that is not of the model.
  """
  remaining = dict(found)
  tensors, faults = {}, []
  for name, shape in shapes.items():
    place = place_of(name, shape)
    value = remaining.pop(place.name, None)
    if value is None:
      faults.append(f"{place.name} is missing")
    elif value.shape != place.shape or value.dtype.name not in _FLOATS:
      faults.append(
        f"{place.name} is {value.dtype} of {value.shape}, not a float of "
        f"{place.shape}"
      )
    else:
      tensors[name] = place.to_original(value, shape)
  if faults:
    faults += [f"{name} is not of this model" for name in sorted(remaining)]
    raise ValueError(f"the tensors of {path} do not fit: {'; '.join(faults)}.")
  warn_of_left_out(path, remaining)
  return tensors


def warn_of_left_out(path: str, names: Collection[str]) -> None:
  """Warns of tensors that are not converted, since BERT does not have them."""
  if names:
    logging.warning(
      "%s: left out %s, which a BERT of its config does not have.",
      path,
      errors.listed(sorted(names)),
    )


def with_untrained(
  model: Pretrained, what: str, shapes: Mapping[str, Shape]
) -> Pretrained:
  """Returns the model with one more layer, whose values are always the same."""
  layer = hugging_face.untrained(shapes, model.config.initializer_range)
  note = hugging_face.untrained_note(what)
  return dataclasses.replace(
    model,
    tensors={**model.tensors, **layer},
    notes=(*model.notes, note),
  )


def shapes_of(
  config: modeling.BertConfig,
  found: Collection[heads.Head],
  num_labels: int = 0,
) -> Shapes:
  """Returns name and shape of every tensor, as the original has them.

  Args:
    config: sizes.
    found: the heads that are there.
    num_labels: of `output_weights`, if that is among them.
  """
  with tf.Graph().as_default():  # Names and shapes only: no memory.
    weights = modeling.BertModel(config).weights
    if config.bilstm and found:
      weights += bilstm.on_top(config.hidden_size).weights
  shapes = {v.path: tuple(v.shape) for v in weights}
  for head in found:
    shapes.update(head_shapes(head, config, num_labels))
  return shapes


def head_shapes(
  head: heads.Head, config: modeling.BertConfig, num_labels: int = 0
) -> Shapes:
  """Returns name and shape of a head's tensors."""
  sizes = {"D": config.hidden_size, "V": config.vocab_size, "C": num_labels}
  return {
    name: tuple(sizes[n] if isinstance(n, str) else n for n in shape)
    for name, shape in head.shapes.items()
  }


def open_files(
  source: Source, path: str, needs_vocab: bool = False
) -> model_folder.ModelFolder:
  """Returns the files beside a model's weights, a prefix or a file.

  Raises:
    ValueError: without a config, or a vocabulary that is needed; if the
      vocabulary is of another model, or a file is damaged.
  """
  files = model_folder.beside(path, source.bert_config_file, source.vocab_file)
  if needs_vocab or files.vocab_file:
    files.load_vocab()
  return files


def describe(
  source: Source,
  files: model_folder.ModelFolder,
  run: run_info.RunInfo | None,
  tensors: Mapping[str, np.ndarray],
  said_by: str = run_info.RUN_FILE,
) -> Pretrained:
  """Returns a model with all that is known of it.

  The heads decide the task. Where nobody says whether the vocabulary is
  lower-cased, its tokens decide. `said_by` is the file that `run` is
  from.

  Raises:
    ValueError: if the source's do_lower_case contradicts the file's, or the
      labels are of another number than the head's.
  """
  run = run or run_info.RunInfo(task="encoder")
  task = task_of(heads_of(tensors, run.task))
  case = letter_case.settle(
    letter_case.Case(source.do_lower_case),
    letter_case.of(run),
    said_by,
    files.vocab_file,
  )
  run = dataclasses.replace(run, task=task, **dataclasses.asdict(case))
  if task not in ("classification", "ner"):
    run = dataclasses.replace(
      run, task_name=None, problem_type=None, labels=None
    )
  notes: tuple[str, ...] = ()
  if files.vocab_file:
    folder = paths.split(files.vocab_file)[0]
    notes = tokenizer_files.read_settings(folder).notes()
  model = Pretrained(files.bert_config, tensors, run, files.vocab_file, notes)
  if run.labels and len(run.labels) != model.num_labels:
    raise ValueError(
      f"{len(run.labels)} labels are saved beside {source.path}, but its head "
      f"has {model.num_labels}."
    )
  return model


def write_files(folder: str, model: Pretrained) -> None:
  """Writes what belongs beside a model's weights into their folder.

  Raises:
    ValueError: if another model's files lie there.
    OSError: if it cannot be written.
  """
  with tempfile.TemporaryDirectory() as staged:
    run_info.write_run(staged, model.run, model.config, model.vocab_file)
    labels = model.run.label_spec
    if labels:
      run_info.write_labels(staged, labels)
    copy_files(staged, folder)


def copy_files(folder: str, other_folder: str) -> None:
  """Copies what lies beside a model's weights; as `write_files`."""
  for name in run_info.FILES[:-1]:
    path = os.path.join(folder, name)
    if paths.exists(path):
      check_content(os.path.join(other_folder, name), paths.read_bytes(path))
  runs = [run_info.read_run(place) for place in (folder, other_folder)]
  first, other = (run and (run.task, run.saved()) for run in runs)
  if first and other and first != other:
    _refuse(os.path.join(other_folder, run_info.RUN_FILE))
  run_info.copy_run(folder, other_folder)


def check_content(path: str, content: bytes) -> None:
  """Raises ValueError if a file is there with other content."""
  if paths.exists(path) and paths.read_bytes(path) != content:
    _refuse(path)


def _refuse(path: str) -> None:
  """Raises ValueError: a file must not be written over."""
  raise ValueError(
    f"{path} is another model's; choose another folder for `output_checkpoint`."
  )
