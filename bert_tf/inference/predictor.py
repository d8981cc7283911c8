"""Predictions from Python, with a model that is loaded once.

predictor = bert_tf.Predictor("models/mrpc/1")
predictor.predict([{"text": "He left.", "text_b": "He went away."}])
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.export import export, saved_models
from bert_tf.export.signatures import attention
from bert_tf.inference import loaded_model, outputs

# A text, or the texts that a model takes by name; the choices are a list.
Row = str | Mapping[str, str | Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Attention:
  """What a model looked at.

  Attributes:
    tokens: the F word pieces, with [CLS] and [SEP].
    probabilities: float32 [L, N, F, T]. Of layer, head, from token F to T.
  """

  tokens: tuple[str, ...]
  probabilities: np.ndarray


class Predictor:
  """A model that is asked for texts.

  It is safe to share between threads: a call leaves nothing behind.

  Args:
    source: folder of a SavedModel, or of its versions, whose newest is taken;
      prefix of a checkpoint, or the output_dir of a run; or an ExportConfig,
      for a checkpoint that wants other settings than the defaults.
    vocab_file: of a checkpoint; None for vocab.txt beside it.
    bert_config_file: of a checkpoint; None for bert_config.json beside it.
    do_lower_case: of a checkpoint: whether it is for lower-cased text.
    max_batch_size: rows that the model sees together.

  Attributes:
    functions: what the model can be asked, by the names of signatures.
    version: the number of a SavedModel's folder, else 1.
    max_batch_size: as given.

  Raises:
    ValueError: if nothing is found at `source`, its files do not fit one
      another, or settings are given that a SavedModel brings with it.
  """

  def __init__(
    self,
    source: str | export.ExportConfig,
    vocab_file: str | None = None,
    bert_config_file: str | None = None,
    do_lower_case: bool = True,
    max_batch_size: int = 32,
  ) -> None:
    if max_batch_size < 1:
      raise ValueError(f"max_batch_size {max_batch_size} is below 1.")
    is_given = bool(vocab_file or bert_config_file or not do_lower_case)
    if isinstance(source, export.ExportConfig):
      if is_given:
        raise ValueError("an ExportConfig has the settings; give them there.")
      model = loaded_model.build(source)
    elif folder := loaded_model.find_saved_model(source):
      if is_given:
        raise ValueError(
          f"{folder} is a SavedModel, which brings its vocabulary, sizes and "
          "case with it; leave these settings out."
        )
      model = loaded_model.load(folder)
    else:
      model = loaded_model.build(
        export.ExportConfig(
          export_dir="",
          init_checkpoint=source,
          vocab_file=vocab_file,
          bert_config_file=bert_config_file,
          do_lower_case=do_lower_case,
          with_attention=True,
        )
      )
    self._model = model
    self.functions = model.functions
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
    found = []
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
    """Returns what the model looks at when it reads a text or a pair.

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
    return outputs.plain(self.functions[name](_columns(texts)))

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
