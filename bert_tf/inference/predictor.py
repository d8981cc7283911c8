"""Predictions from Python, with a model that is loaded once.

predictor = bert_tf.Predictor("models/mrpc/1")
predictor.predict([{"text": "He left.", "text_b": "He went away."}])
"""

import collections
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import settings
from bert_tf.export import config as configs
from bert_tf.export import saved_models
from bert_tf.export.signatures import attention
from bert_tf.files import errors
from bert_tf.inference import loaded_model, outputs
from bert_tf.training import run_dir

# A text, or the texts that a model takes by name; the choices are a list.
Row = str | Mapping[str, str | Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Attention:
  """The attention of a model to the tokens of a text or a pair.

  Attributes:
    tokens: the F word pieces, with [CLS] and [SEP].
    probabilities: float32 [L, N, F, T]. Of layer, head, from token F to T.
  """

  tokens: tuple[str, ...]
  probabilities: np.ndarray


class Predictor:
  """A model that answers texts.

  It is safe to share between threads: a call leaves nothing behind.

  Args:
    source: folder of a SavedModel, or of its versions, whose newest is taken;
      prefix of a checkpoint, or folder of a run; or a ModelConfig, which names
      one of these and has more settings.
    vocab_file: of a checkpoint; None for vocab.txt beside it.
    bert_config_file: of a checkpoint; None for bert_config.json beside it.
    do_lower_case: whether texts are lower-cased; None for what run.json says,
      else what the vocabulary shows.
    max_batch_size: rows that are computed together.

  Attributes:
    functions: the model's functions, by the names of signatures.
    info: what run.json says of the model; None without one.
    version: the number of a SavedModel's folder, else 1.
    max_batch_size: as given.

  Raises:
    ValueError: if nothing is found at `source`, its files do not fit one
      another, or a setting contradicts them.
  """

  def __init__(
    self,
    source: str | configs.ModelConfig,
    vocab_file: str | None = None,
    bert_config_file: str | None = None,
    do_lower_case: bool | None = None,
    max_batch_size: int = 32,
  ) -> None:
    if max_batch_size < 1:
      raise ValueError(f"max_batch_size {max_batch_size} is below 1.")
    if isinstance(source, str):
      source = configs.ModelConfig(
        init_checkpoint=source,
        vocab_file=vocab_file,
        bert_config_file=bert_config_file,
        do_lower_case=do_lower_case,
      )
    elif (vocab_file, bert_config_file, do_lower_case) != (None, None, None):
      raise ValueError("a ModelConfig has the settings; give them there.")
    model = _load(source)
    self._model = model
    self.functions = model.functions
    self.info = model.info
    self.version = model.version
    self.max_batch_size = max_batch_size

  def predict(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns an answer to each row, in their order.

    Args:
      rows: of what the model takes, such as {"text": ...}, {"text": ...,
        "text_b": ...}, {"question": ..., "context": ...}; a text alone where
        it takes one.

    Returns:
      Dicts of numbers, texts and lists, as `outputs.plain` has them.

    Raises:
      ValueError: if a row is not what the model takes.
      tf.errors.OpError: if the model refuses a text, such as one that is too
        long.
    """
    if isinstance(rows, str | Mapping):
      raise ValueError(f"pass a list of rows, not one: {rows!r:.60}")
    by_kind = collections.defaultdict(list)
    found: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
      name, texts = self._request(index, row)
      # Rows of one call have the same number of choices.
      widths = tuple(np.shape(text) for text in texts.values())
      by_kind[name, widths].append((index, texts))
      found.append({})
    for (name, _), requests in by_kind.items():
      requests.sort(key=lambda request: _length(request[1]))
      for first in range(0, len(requests), self.max_batch_size):
        batch = requests[first : first + self.max_batch_size]
        for (index, _), answer in zip(batch, self._answers(name, batch)):
          found[index] = answer
    return found

  def attention(self, text: str, text_b: str | None = None) -> Attention:
    """Returns the attention of all layers and heads for a text or a pair.

    Raises:
      ValueError: if it is a SavedModel that was written without.
    """
    name = attention.SINGLE if text_b is None else attention.PAIR
    if name not in self.functions:
      raise ValueError(
        "this SavedModel was exported without attention; export it with "
        "--attention, or give its checkpoint."
      )
    texts = {"text": text} | ({} if text_b is None else {"text_b": text_b})
    found = self.functions[name](_columns([texts]))
    tokens = [token.decode() for token in found["tokens"][0]]
    return Attention(tuple(tokens), found["attention"][0])

  def _answers(
    self, name: str, batch: Sequence[tuple[int, Mapping[str, Any]]]
  ) -> list[dict[str, Any]]:
    texts = [texts for _, texts in batch]
    try:
      return outputs.plain(self.functions[name](_columns(texts)))
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(errors.reason(error)) from error

  def _request(self, index: int, row: Row) -> tuple[str, dict[str, Any]]:
    """Returns the name of the function that takes a row, and its inputs."""
    texts = {"text": row} if isinstance(row, str) else row
    if not isinstance(texts, Mapping):
      raise ValueError(
        f"row {index} is neither a text nor texts by name: {row!r:.60}"
      )
    name = self._function_of(index, texts)
    for field, spec in self.functions[name].inputs.items():
      _check_texts(f"{field} of row {index}", texts[field], spec.shape.rank - 1)
    return name, dict(texts)

  def _function_of(self, index: int, texts: Mapping[str, Any]) -> str:
    """Returns the name of the function that takes these inputs."""
    names = self.text_functions()
    for name in names:
      if self.functions[name].inputs.keys() == texts.keys():
        return name
    if not names:
      raise ValueError(
        "the model takes no texts: it was exported as an encoder or with "
        "--notext."
      )
    allowed = {", ".join(self.functions[name].inputs) for name in names}
    raise ValueError(
      f"row {index} has {', '.join(map(str, texts)) or 'nothing'}; the model "
      f"takes {' or '.join(sorted(allowed))}."
    )

  def text_functions(self) -> list[str]:
    """Returns the names of functions that answer texts, the default first."""
    names = [
      name
      for name, function in self.functions.items()
      if function.takes_texts()
      and name not in (attention.SINGLE, attention.PAIR)
    ]
    return sorted(names, key=lambda name: name != saved_models.DEFAULT)


def _load(config: configs.ModelConfig) -> loaded_model.LoadedModel:
  """Returns a model; ValueError if settings contradict a SavedModel's."""
  folder = loaded_model.find_saved_model(config.init_checkpoint)
  if folder is None:
    return loaded_model.build(config, with_attention=True)
  info = run_dir.read_run(folder)
  default = configs.ModelConfig(init_checkpoint=config.init_checkpoint)
  fixed = [field.name for field in dataclasses.fields(default)]
  if info and config.task in (None, info.task):
    fixed = ["bert_config_file", "vocab_file", "top_k"]
  for name in fixed:
    if getattr(config, name) != getattr(default, name):
      raise ValueError(
        f"{name} {getattr(config, name)!r} is for checkpoints; {folder} is a "
        f"SavedModel{f' of {info.task}' if info else ''}, which brings its "
        f"own. Leave --{name} out."
      )
  if info:
    run_file = os.path.join(folder, run_dir.RUN_FILE)
    settings.settle(config, info.saved(), run_file)
  return loaded_model.load(folder)


def _check_texts(name: str, value: Any, num_axes: int) -> None:
  """Raises ValueError for what is no text, or for one axis no list of texts."""
  if num_axes:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
      raise ValueError(f"{name} is no list of texts: {value!r:.60}")
    for item in value:
      _check_texts(name, item, num_axes - 1)
  elif not isinstance(value, str):
    raise ValueError(f"{name} is no text: {value!r:.60}")
  elif any("\ud800" <= character <= "\udfff" for character in value):
    raise ValueError(f"{name} is no Unicode text: {value!r:.60}")


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
  """Returns the inputs of several rows, by name."""
  return {
    name: np.array([row[name] for row in rows], dtype=object)
    for name in rows[0]
  }


def _length(texts: Mapping[str, Any]) -> int:
  """Returns about how long a row is, so that like stands with like."""
  return sum(len("".join(text)) for text in texts.values())
