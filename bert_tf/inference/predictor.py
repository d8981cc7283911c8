"""Predicts from Python with a model that is loaded once."""

import dataclasses
import functools
import math
import os
from typing import Any

import numpy as np

from bert_tf import task_registry
from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.inference import ids_functions
from bert_tf.inference.feature_extraction import FeatureExtractor
from bert_tf.inference.rows import RowModel, open_model
from bert_tf.tasks import base


@dataclasses.dataclass(frozen=True)
class Attention:
  """The attention of a model for a text or a pair."""

  tokens: tuple[str, ...]  # F word pieces, including [CLS] and [SEP].
  # float32 [L, N, F, T]. Weight from token F to token T in each layer and head.
  probabilities: np.ndarray


class Predictor(RowModel):
  """Predicts for texts with a checkpoint or an exported model.

  It may be shared between threads. Answers are those of the prediction files of
  the task's command. The keys of an answer are, for classification, label and
  probabilities; for squad answer, start, end, probability and nbest; for ner
  words; for masked words masks; for swag choice and probabilities.

  Args:
    source: folder of a SavedModel or of its versions (uses the newest), prefix
      of a checkpoint, folder of a run, or an open ModelFolder.
    max_batch_size: maximum number of rows in a batch.
    **settings: of the task by name, such as do_lower_case, or vocab_file,
      bert_config_file and task; see `ModelFolder.open`. An open ModelFolder
      takes only those of its task.

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
      is unknown or contradicts them.

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
    source: str | os.PathLike[str] | ModelFolder,
    *,
    max_batch_size: int = 32,
    **settings: Any,
  ) -> None:
    files = open_model(source, **settings)
    self.info, self.bert_config = files.info, files.config
    self.vocab_file = files.vocab_file
    self.functions = ids_functions.open_functions(files)
    name = os.path.basename(os.path.abspath(str(files.weights)))
    self.version = int(name) if name.isdecimal() else 1
    self.num_parameters: int | None = None
    if files.reader:
      names = checkpoint_names.parameters(files.shapes)
      self.num_parameters = sum(math.prod(files.shapes[n]) for n in names)
    tasks: dict[str, base.Task[Any]] = {}
    if files.vocab_file:
      spec = task_registry.TASKS[self.info.task]
      task = task_registry.load(spec.task)(
        tokenizer=files.tokenizer,
        settings=self.info.settings,
        labels=self.info.labels,
      )
      tasks = {ids_functions.TEXT: task, **task.variants()}
    function = self.functions[ids_functions.IDS]
    super().__init__(tasks, function, max_batch_size)

  @functools.cached_property
  def ids_reader(self) -> ids_functions.IdsRows:
    """Answers rows of word-piece ids."""
    return ids_functions.IdsRows(self.functions[ids_functions.IDS])

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
    [output] = function.compute([packed], [ids_functions.ATTENTION])
    tokens = task.tokenizer.convert_ids_to_tokens(packed.input_ids)
    return Attention(tuple(tokens), output[ids_functions.ATTENTION])


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
