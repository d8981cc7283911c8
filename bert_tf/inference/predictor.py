"""Predicts from Python with a model that is loaded once."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import checkpoints, heads, model_folder
from bert_tf.data import unknown_pieces
from bert_tf.export import config as configs
from bert_tf.export import saved_models
from bert_tf.inference import feature_extraction, ids_rows, loaded_model
from bert_tf.inference import inputs as inputs_lib
from bert_tf.tasks import base


@dataclasses.dataclass(frozen=True)
class Attention:
  """The attention of a model for a text or a pair."""

  tokens: tuple[str, ...]  # F word pieces, including [CLS] and [SEP].
  # float32 [L, N, F, T]. Weight from token F to token T in each layer and head.
  probabilities: np.ndarray


class Predictor:
  """Predicts for texts with a SavedModel or a checkpoint.

  It may be shared between threads. Answers are those of the prediction files of
  the task's command.

  Args:
    source: folder of a SavedModel or of its versions (uses the newest), prefix
      of a checkpoint, folder of a run, or a ModelConfig that names one of these
      and has more settings.
    max_batch_size: maximum number of rows in a batch.
    **settings: of ModelConfig, such as vocab_file or do_lower_case.

  Attributes:
    tasks: what turns texts into answers, by name: "text", for words also
      "plain_text"; {} if the model has no vocabulary.
    functions, info, version, bert_config, vocab_file, num_parameters: as in
      LoadedModel.

  Raises:
    ValueError: if `source` has no model, its files do not match, or a setting
      contradicts them.

  Examples:
    >>> predictor = bert_tf.Predictor("quickstart", top_k=3)
    >>> answers = predictor.predict(["The [MASK] is new.", "[MASK] or [MASK]?"])
    >>> [len(answer["masks"]) for answer in answers]
    [1, 2]
    >>> attention = predictor.attention("The hotel was built.")
    >>> attention.tokens
    ('[CLS]', 'the', 'hotel', 'was', 'built', '.', '[SEP]')
    >>> attention.probabilities.shape  # Layers, heads, from and to a piece.
    (1, 2, 7, 7)
  """

  def __init__(
    self,
    source: str | configs.ModelConfig,
    *,
    max_batch_size: int = 32,
    **settings: Any,
  ) -> None:
    if max_batch_size < 1:
      raise ValueError(f"max_batch_size {max_batch_size} must be at least 1.")
    if isinstance(source, str):
      source = configs.ModelConfig(init_checkpoint=source, **settings)
    else:
      source = dataclasses.replace(source, **settings)
    weights = model_folder.find_weights(source.init_checkpoint)
    if checkpoints.is_saved_model(weights):
      source = dataclasses.replace(source, init_checkpoint=weights)
      model = loaded_model.load(source)
    else:
      model = loaded_model.build(source)
    self._model = model
    self.tasks: dict[str, base.Task[Any]] = {}
    self._counts: unknown_pieces.PieceCounts | None = None
    if model.info is not None and model.tokenizer is not None:
      task = base.open_task(
        model.info.task, model.tokenizer, model.info.settings, model.info.labels
      )
      self.tasks = {saved_models.TEXT: task, **task.variants()}
      self._counts = unknown_pieces.PieceCounts(model.tokenizer, "the texts")
    self.functions = model.functions
    self.info = model.info
    self.version = model.version
    self.bert_config = model.bert_config
    self.vocab_file = model.vocab_file
    self.num_parameters = model.num_parameters
    self.max_batch_size = max_batch_size

  @functools.cached_property
  def ids_reader(self) -> ids_rows.IdsRows:
    """Answers rows of word-piece ids."""
    return ids_rows.IdsRows(self._model)

  def predict(self, inputs: Any) -> Any:
    """Returns the answer for a row, or a list of answers for several.

    Args:
      inputs: a row: a text, a tuple such as (text, text_b), (question, context)
        or (context, choices), or a dict by name, such as {"text": ...}. Or
        several rows: a list, iterator, NumPy array, pandas Series or DataFrame.

    Returns:
      A dict for each row. Its keys are, for classification, label and
      probabilities; for squad answer, start, end, probability and nbest; for
      ner words; for masked words masks; for swag choice and probabilities.

    Raises:
      ValueError: if a row does not match the inputs of the model, or if the
        model rejects a text, such as one that is too long or lacks [MASK].
    """
    rows, is_single = inputs_lib.to_rows(inputs)
    task = self.task()
    names, num = task.fields, task.num_required
    to_texts = inputs_lib.texts_by_name
    texts = [to_texts(i, row, names, num) for i, row in enumerate(rows)]
    task.check(texts)
    prepared = [self.preprocess(task, i, row) for i, row in enumerate(texts)]
    places = [
      (row, number)
      for row, each in enumerate(prepared)
      for number in range(len(each.sequences))
    ]
    # A batch is as wide as its longest input.
    places.sort(key=lambda p: len(prepared[p[0]].sequences[p[1]].input_ids))
    outputs: list[dict[int, base.Outputs]] = [{} for _ in rows]
    answers: list[Any] = [
      None if each.sequences else task.postprocess(each, [])
      for each in prepared
    ]
    for first in range(0, len(places), self.max_batch_size):
      batch = places[first : first + self.max_batch_size]
      computed = self.compute(
        [prepared[row].sequences[number] for row, number in batch], task
      )
      for (row, number), output in zip(batch, computed):
        outputs[row][number] = output
        if len(outputs[row]) == len(prepared[row].sequences):
          known = [outputs[row][i] for i in range(len(outputs[row]))]
          answers[row] = task.postprocess(prepared[row], known)
          outputs[row] = {}  # Frees the memory.
    return answers[0] if is_single else answers

  def preprocess(
    self, reader: ids_rows.RowReader, index: int, row: base.Row
  ) -> base.Inputs:
    """Returns the inputs of a row; errors name the row's number."""
    try:
      [inputs] = reader.preprocess([row])
    except ValueError as error:
      raise ValueError(f"row {index}: {error}") from error
    if self._counts:
      for sequence in inputs.sequences:
        self._counts.add_ids(sequence.input_ids)
    return inputs

  def task(self) -> base.Task[Any]:
    """Returns the task of texts; ValueError if the model takes no texts."""
    if not self.tasks:
      raise ValueError(
        "the model takes no texts, as its folder lacks vocab.txt or run.json."
      )
    return self.tasks[saved_models.TEXT]

  def compute(
    self, sequences: Sequence[base.ModelInput], reader: ids_rows.RowReader
  ) -> list[base.Outputs]:
    """Returns the outputs for a batch; several threads may call it.

    Raises:
      ValueError: if the model rejects an input.
    """
    function = self.functions[saved_models.IDS]
    arrays = base.batch(sequences, reader.width)
    if "masked_lm_positions" in function.inputs:
      arrays.setdefault(
        "masked_lm_positions", np.zeros((len(sequences), 0), np.int32)
      )
    has_choices = function.inputs["input_ids"].shape.rank == 3
    if has_choices:  # Each input is the only choice of a row.
      arrays = {name: array[:, None] for name, array in arrays.items()}
    outputs = function(arrays, reader.outputs)
    return [dict(zip(outputs, values)) for values in zip(*outputs.values())]

  def attention(self, text: str, text_b: str | None = None) -> Attention:
    """Returns the attention of all layers and heads for a text or a pair.

    Raises ValueError if the model has no head or was exported without it.
    """
    if saved_models.ATTENTION not in self.functions:
      raise ValueError(
        "this model has no attention function; give the checkpoint of a model "
        "with a head, or export it with `attention`."
      )
    task = self.task()
    packed = task.pack(
      task.tokenize(text), None if text_b is None else task.tokenize(text_b)
    )
    function = self.functions[saved_models.ATTENTION]
    [probabilities] = function(base.batch([packed]))["attention"]
    tokens = task.tokenizer.convert_ids_to_tokens(packed.input_ids)
    return Attention(tuple(tokens), probabilities)


def load(
  folder: str | os.PathLike[str],
) -> Predictor | feature_extraction.FeatureExtractor:
  """Loads the model in a folder for predictions.

  The folder may hold a released model, a run or its best/, a converted model, a
  SavedModel or a Hugging Face model.

  Returns:
    A Predictor. For a model without a head that is not a SavedModel, a
    FeatureExtractor, whose `encode` turns texts into vectors.

  Raises:
    FileNotFoundError: if there is no such folder. It is a ValueError as well.
    ValueError: if the folder does not hold exactly one readable model.

  Examples:
    >>> model = bert_tf.load("quickstart")
    >>> answer = model.predict("The hotel was [MASK] in 1988.")
    >>> answer["masks"][0][0]  # The best guess for the first mask.
    {'token': '...', 'probability': 0...}
  """
  path = os.fspath(folder)
  weights = model_folder.find_weights(path)
  if checkpoints.is_saved_model(weights):
    return Predictor(weights)
  names = checkpoints.CheckpointReader(weights).shapes
  if all(model.missing_variables(names) for model in heads.list_models()):
    return feature_extraction.FeatureExtractor(path)
  return Predictor(path)
