"""Predicts from Python with a model that is loaded once.

predictor = bert_tf.Predictor("models/mrpc/1")
predictor.predict([{"text": "He left.", "text_b": "He went away."}])
"""

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, heads, model_folder, settings
from bert_tf.export import config as configs
from bert_tf.export import saved_models
from bert_tf.export.signatures import attention
from bert_tf.files import errors
from bert_tf.inference import config as inference_config
from bert_tf.inference import (
  feature_extraction,
  loaded_model,
  long_texts,
  outputs,
)
from bert_tf.inference import inputs as inputs_lib
from bert_tf.model_folder import run_info


@dataclasses.dataclass(frozen=True)
class Attention:
  """The attention of a model for a text or a pair."""

  tokens: tuple[str, ...]  # F word pieces, including [CLS] and [SEP].
  # float32 [L, N, F, T]. Weight from token F to token T in each layer and head.
  probabilities: np.ndarray


class Predictor:
  """Predicts for texts with a SavedModel or a checkpoint.

  It may be shared between threads. A classifier trained with `long_text` reads
  long texts as in its run.

  Args:
    source: folder of a SavedModel or of its versions (uses the newest), prefix
      of a checkpoint, folder of a run, or a ModelConfig that names one of these
      and has more settings.
    vocab_file: vocabulary of a checkpoint; None for vocab.txt next to it.
    bert_config_file: None for bert_config.json next to the checkpoint.
    do_lower_case: whether to lower-case texts; None for the value in run.json,
      otherwise inferred from the vocabulary.
    max_batch_size: maximum number of rows in a batch.

  Attributes:
    functions: functions of the model, by signature name.
    info: content of run.json; None without one.
    version: number of a SavedModel's folder, else 1.
    bert_config: sizes of the model; None if it has none.
    vocab_file: path of the vocabulary; None if it has none.
    num_parameters: number of weights.
    max_batch_size: maximum number of rows in a batch.

  Raises:
    ValueError: if `source` has no model, its files do not match, or a setting
      contradicts them.
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
      raise ValueError(
        "a ModelConfig has these settings too; give them only there."
      )
    model = _load(source)
    self._model = model
    self._long_texts = long_texts.create(model, max_batch_size)
    self.functions = model.functions
    self.info = model.info
    self.version = model.version
    self.bert_config = model.bert_config
    self.vocab_file = model.vocab_file
    self.num_parameters = model.num_parameters
    self.max_batch_size = max_batch_size

  def predict(self, inputs: Any) -> Any:
    """Returns the answer for a row, or a list of answers for several.

    Args:
      inputs: a row: a text, a tuple such as (text, text_b), (question, context)
        or (context, choices), or a dict by name, such as {"text": ...}. Or
        several rows: a list, iterator, NumPy array, pandas Series or DataFrame.

    Returns:
      A dict for each row, as in `outputs.to_python`.

    Raises:
      ValueError: if a row does not match the inputs of the model, or if the
        model rejects a text, such as one that is too long.
    """
    rows, is_single = inputs_lib.to_rows(inputs)
    by_kind = collections.defaultdict(list)
    answers: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
      name, texts = self._request(index, row)
      # Rows of one call have the same number of choices.
      widths = tuple(np.shape(text) for text in texts.values())
      by_kind[name, widths].append((index, texts))
      answers.append({})
    for (name, _), requests in by_kind.items():
      # By number of characters, since a batch is as wide as its longest row.
      requests.sort(key=lambda r: sum(len("".join(t)) for t in r[1].values()))
      for first in range(0, len(requests), self.max_batch_size):
        batch = requests[first : first + self.max_batch_size]
        for (index, _), answer in zip(batch, self._answers(name, batch)):
          answers[index] = answer
    return answers[0] if is_single else answers

  def attention(self, text: str, text_b: str | None = None) -> Attention:
    """Returns the attention of all layers and heads for a text or a pair.

    Raises:
      ValueError: if the model has no head, or the SavedModel was exported
        without attention.
    """
    name = attention.SINGLE if text_b is None else attention.PAIR
    if name not in self.functions:
      raise ValueError(
        "this model has no attention functions; use a model with a head: "
        "export it with export_savedmodel.py --attention, or give its "
        "checkpoint."
      )
    texts = {"text": text} | ({} if text_b is None else {"text_b": text_b})
    arrays = self.functions[name](_columns([texts]))
    tokens = [token.decode() for token in arrays["tokens"][0]]
    return Attention(tuple(tokens), arrays["attention"][0])

  def _answers(
    self, name: str, batch: Sequence[tuple[int, Mapping[str, Any]]]
  ) -> list[dict[str, Any]]:
    rows = [texts for _, texts in batch]
    if self._long_texts and rows[0].keys() == {"text"}:
      return outputs.to_python(self._long_texts([row["text"] for row in rows]))
    try:
      return outputs.to_python(self.functions[name](_columns(rows)))
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(errors.reason(error)) from error

  def _request(self, index: int, row: Any) -> tuple[str, dict[str, Any]]:
    """Returns the name of the function for a row, and the row's texts."""
    functions = {name: self.functions[name] for name in self.text_functions()}
    fields = {name for f in functions.values() for name in f.inputs}
    names = [name for name in inputs_lib.ORDER if name in fields]
    texts = inputs_lib.texts_by_name(index, row, names or ["text"])
    for name, function in functions.items():
      if function.inputs.keys() == texts.keys():
        for field, spec in function.inputs.items():
          where = f"{field} of row {index}"
          inputs_lib.check_texts(where, texts[field], spec.shape.rank - 1)
        return name, texts
    if not functions:
      raise ValueError(
        "the model takes no texts: it was exported without its text functions."
      )
    allowed = {", ".join(function.inputs) for function in functions.values()}
    raise ValueError(
      f"row {index} has {', '.join(map(str, texts)) or 'nothing'}; the model "
      f"takes {' or '.join(sorted(allowed))}."
    )

  def text_functions(self) -> list[str]:
    """Returns the names of functions that predict from texts.

    The default is first. Functions that return the attention are left out.
    """
    names = [
      name
      for name, function in self.functions.items()
      if function.takes_texts()
      and name not in (attention.SINGLE, attention.PAIR)
    ]
    return sorted(names, key=lambda name: name != saved_models.DEFAULT)


def load(
  folder: str | os.PathLike[str],
) -> Predictor | feature_extraction.FeatureExtractor:
  """Loads the model in a folder for predictions.

      bert_tf.load("models/mrpc").predict([("He left.", "He went away.")])

  The folder may hold a released model, a run or its best/, a converted model, a
  SavedModel or a Hugging Face model.

  Returns:
    A Predictor. For a model without a head that is not a SavedModel, a
    FeatureExtractor of the last layer.

  Raises:
    ValueError: if the folder does not hold exactly one readable model.
    ImportError: if a package for reading it is missing.
  """
  path = os.fspath(folder)
  weights = model_folder.find_weights(path)
  if checkpoints.is_saved_model(weights):
    return Predictor(weights)
  names = checkpoints.CheckpointReader(weights).shapes
  if all(model.missing_variables(names) for model in heads.MODELS):
    return feature_extraction.FeatureExtractor(
      inference_config.ExtractionConfig(init_checkpoint=path, layers=(-1,))
    )
  return Predictor(path)


def _load(config: configs.ModelConfig) -> loaded_model.LoadedModel:
  """Loads a model; raises ValueError if settings contradict a SavedModel."""
  folder = model_folder.find_weights(config.init_checkpoint)
  if not checkpoints.is_saved_model(folder):
    return loaded_model.build(config, with_attention=True)
  info = run_info.read_run(folder)
  default = configs.ModelConfig(init_checkpoint=config.init_checkpoint)
  fixed = [field.name for field in dataclasses.fields(default)]
  if info and config.task in (None, info.task):
    fixed = ["bert_config_file", "vocab_file", "top_k"]
  for name in fixed:
    if getattr(config, name) != getattr(default, name):
      raise ValueError(
        f"{name} {getattr(config, name)!r} is for checkpoints; {folder} is a "
        f"SavedModel{f' of {info.task}' if info else ''} with its own value. "
        f"Leave `{name}` out."
      )
  if info:
    config.check_used(info.task)
    run_file = os.path.join(folder, run_info.RUN_FILE)
    settings.resolve(config, info.saved(config), run_file)
  return loaded_model.load(folder)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
  """Returns the inputs of several rows, by name."""
  return {
    name: np.array([row[name] for row in rows], dtype=object)
    for name in rows[0]
  }
