"""Predicts from Python with a model that is loaded once."""

import dataclasses
import functools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import task_registry
from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.inference import ids_functions
from bert_tf.inference.config import ModelConfig
from bert_tf.inference.feature_extraction import FeatureExtractor
from bert_tf.inference.rows import answer_rows, map_rows, texts_by_name, to_rows
from bert_tf.tasks import base
from bert_tf.tasks.rows import Row
from bert_tf.text.unknown_pieces import PieceCounts


@dataclasses.dataclass(frozen=True)
class Attention:
  """The attention of a model for a text or a pair."""

  tokens: tuple[str, ...]  # F word pieces, including [CLS] and [SEP].
  # float32 [L, N, F, T]. Weight from token F to token T in each layer and head.
  probabilities: np.ndarray


class Predictor:
  """Predicts for texts with a checkpoint or an exported model.

  It may be shared between threads. Answers are those of the prediction files of
  the task's command.

  Args:
    source: folder of a SavedModel or of its versions (uses the newest), prefix
      of a checkpoint, folder of a run, or a ModelConfig that names one of these
      and has more settings, or an open ModelFolder without further settings.
    max_batch_size: maximum number of rows in a batch.
    **settings: of ModelConfig, such as vocab_file or do_lower_case.

  Attributes:
    tasks: what turns texts into answers, by name: "text", for words also
      "plain_text"; {} if the model has no vocabulary.
    functions: the model's functions on ids by name, "ids" and if available
      "attention"; see ids_functions.IdsFunction.
    info: what a run.json says about the model with the user's settings, a
      RunInfo.
    bert_config: the sizes.
    vocab_file: the vocabulary; None without one.
    version: the name of the model's folder if it is a number, else 1.
    num_parameters: the number of weights; None for a file of ONNX or LiteRT.

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
    source: str | ModelConfig | ModelFolder,
    *,
    max_batch_size: int = 32,
    **settings: Any,
  ) -> None:
    if max_batch_size < 1:
      raise ValueError(f"max_batch_size {max_batch_size} must be at least 1.")
    self.max_batch_size = max_batch_size
    if isinstance(source, str):
      source = ModelConfig(init_checkpoint=source)
    if isinstance(source, ModelConfig):
      source = dataclasses.replace(source, **settings).open()
    files = source
    self.info, self.bert_config = files.info, files.config
    self.vocab_file = files.vocab_file
    self.functions = ids_functions.open_functions(files)
    name = os.path.basename(os.path.abspath(str(files.weights)))
    self.version = int(name) if name.isdecimal() else 1
    self.num_parameters: int | None = None
    if files.reader:
      names = checkpoint_names.parameters(files.shapes)
      self.num_parameters = sum(math.prod(files.shapes[n]) for n in names)
    self.tasks: dict[str, base.Task[Any]] = {}
    self._counts: PieceCounts | None = None
    if files.tokenizer is not None:
      spec = task_registry.TASKS[self.info.task]
      task = task_registry.load(spec.task)(
        tokenizer=files.tokenizer,
        settings=self.info.settings,
        labels=self.info.labels,
      )
      self.tasks = {ids_functions.TEXT: task, **task.variants()}
      self._counts = PieceCounts(files.tokenizer, "the texts")

  @functools.cached_property
  def ids_reader(self) -> ids_functions.IdsRows:
    """Answers rows of word-piece ids."""
    return ids_functions.IdsRows(self.functions[ids_functions.IDS])

  def predict(self, inputs: Any) -> Any:
    """Returns the answer for a row, or a list of answers for several.

    Args:
      inputs: a row: a text, a tuple such as (text, text_b), (question, context)
        or (context, choices), or a dict by name, such as {"text": ...}. A model
        with one output sorts the texts of (query, texts) by relevance. Or
        several rows: a list, iterator, NumPy array, pandas Series or DataFrame.

    Returns:
      A dict for each row. Its keys are, for classification, label and
      probabilities, or ranking for several second texts; for squad answer,
      start, end, probability and nbest; for ner words; for masked words masks;
      for swag choice and probabilities.

    Raises:
      ValueError: if a row does not match the inputs of the model, or if the
        model rejects a text, such as one that is too long or lacks [MASK].
    """
    rows, is_single = to_rows(inputs)
    task = self.task()
    fields, num_required = task.fields, task.num_required
    texts = [
      *map_rows(lambda row: texts_by_name(row, fields, num_required), rows)
    ]
    task.check(texts)
    answers = [
      *answer_rows(
        map_rows(lambda row: self.preprocess(task, row), texts),
        lambda sequences: self.compute(sequences, task),
        task.postprocess,
        lambda length: self.max_batch_size,
      )
    ]
    return answers[0] if is_single else answers

  def preprocess(
    self, reader: ids_functions.RowReader, row: Row
  ) -> base.Inputs:
    """Returns the inputs of a row; ValueError if the model cannot read it."""
    [inputs] = reader.preprocess([row])
    if self._counts:
      for sequence in inputs.sequences:
        self._counts.add_ids(sequence.input_ids)
    return inputs

  def task(self) -> base.Task[Any]:
    """Returns the task of texts; ValueError if the model takes no texts."""
    if not self.tasks:
      raise ValueError(
        "the model takes no texts, because its folder lacks vocab.txt."
      )
    return self.tasks[ids_functions.TEXT]

  def compute(
    self, sequences: Sequence[base.ModelInput], reader: ids_functions.RowReader
  ) -> list[base.Outputs]:
    """Returns the outputs for a batch; several threads may call it.

    Raises:
      ValueError: if the model rejects an input.
    """
    function = self.functions[ids_functions.IDS]
    # A row of ids may be empty, but the pooled output needs a position.
    lengths = [len(sequence.input_ids) for sequence in sequences]
    arrays = base.batch(sequences, reader.width or max(1, *lengths))
    if "masked_lm_positions" in function.inputs:
      arrays.setdefault(
        "masked_lm_positions", np.zeros((len(sequences), 0), np.int32)
      )
    if function.inputs["input_ids"].shape.rank == 3:
      # Each sequence is the only choice of a row.
      arrays = {name: array[:, None] for name, array in arrays.items()}
    outputs = function(arrays, reader.outputs)
    return [dict(zip(outputs, values)) for values in zip(*outputs.values())]

  def attention(self, text: str, text_b: str | None = None) -> Attention:
    """Returns the attention of all layers and heads for a text or a pair.

    Raises ValueError if the model has no head, or is no checkpoint.
    """
    if ids_functions.ATTENTION not in self.functions:
      raise ValueError(
        "this model has no attention; give the checkpoint of a model with a "
        "head."
      )
    task = self.task()
    packed = task.pack(
      task.tokenize(text), None if text_b is None else task.tokenize(text_b)
    )
    function = self.functions[ids_functions.ATTENTION]
    [probabilities] = function(base.batch([packed]))["attention"]
    tokens = task.tokenizer.convert_ids_to_tokens(packed.input_ids)
    return Attention(tuple(tokens), probabilities)


def load(folder: str | os.PathLike[str]) -> Predictor | FeatureExtractor:
  """Loads the model in a folder for predictions.

  The folder may hold a released model, a run or its best/, a converted or an
  exported model, or a Hugging Face model.

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
  files = ModelFolder.open(os.fspath(folder))
  is_encoder = files.task_name == task_registry.ENCODER.name
  # Without a run.json, a SavedModel is only a checkpoint, as those of TF Hub.
  is_served = files.saved and checkpoints.is_saved_model(str(files.weights))
  if is_encoder and not is_served:
    return FeatureExtractor(files)
  return Predictor(files)
