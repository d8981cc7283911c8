"""A BiLSTM between BERT and the head (Devlin et al. 2019, section 5.1)."""

from typing import Any

import keras
from keras import ops

from bert_tf.model import heads, model_inputs
from bert_tf.model.losses import Features
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification_task
from bert_tf.tasks.rows import Results
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import task as squad_task


def make(
  input_size: int, units: int, name: str, dtype: Any = None
) -> keras.layers.Bidirectional:
  """Returns a built BiLSTM with random values.

  Call it with float [B, F, input_size] and a mask, bool [B, F]. It returns
  float [B, F, 2 * units]: the forward half, then the backward half.
  """
  # Not cuDNN's LSTM, which XLA cannot compile.
  lstm = keras.layers.LSTM(
    units, return_sequences=True, use_cudnn=False, name="lstm", dtype=dtype
  )
  bilstm = keras.layers.Bidirectional(lstm, name=name, dtype=dtype)
  bilstm.build((None, None, input_size))
  return bilstm


def summarise(hidden: Tensor, last_positions: Tensor) -> Tensor:
  """Returns the last output of each direction, concatenated.

  Args:
    hidden: float [B, F, D]. The output of a BiLSTM, forward half first.
    last_positions: int [B, 1]. The last position that is not masked, at which
      the forward half ends. The backward half ends at position 0.

  Returns:
    float [B, D].
  """
  half = hidden.shape[-1] // 2
  indexes = last_positions[:, :, None]
  forward = ops.take_along_axis(hidden, indexes, axis=1)[:, 0, :half]
  return ops.concatenate([forward, hidden[:, 0, half:]], axis=-1)


class _OnBiLstm(heads.HeadModel):
  """A head that reads a BiLSTM in place of the outputs of BERT."""

  def __init__(self, *args: Any, **settings: Any) -> None:
    super().__init__(*args, **settings)
    size = self.config.hidden_size
    # The paper names no size; each direction is half as wide as BERT.
    self.bilstm = make(size, size // 2, "bilstm", self.dtype_policy)

  @property
  def unused_variables(self) -> list[keras.Variable]:
    """The pooler's variables: the BiLSTM takes the place of its output."""
    return self.bert.pooler.trainable_variables

  def sequence_output(self, features: Features, training: bool) -> Tensor:
    """Returns the output at each position, float [B, F, D]."""
    hidden = super().sequence_output(features, training)
    mask = ops.greater(features["input_mask"], 0)
    output = self.bilstm(hidden, mask=mask)
    # Drops the Keras mask, which the heads do not support.
    return ops.where(mask[:, :, None], output, 0.0)

  def pooled_output(self, features: Features, training: bool) -> Tensor:
    """Returns the last output of each direction, concatenated, float [B, D]."""
    hidden = self.sequence_output(features, training)
    input_mask = features["input_mask"]
    return summarise(hidden, model_inputs.last_positions(input_mask))


class BiLstmClassifierModel(_OnBiLstm, heads.ClassifierModel):
  """A ClassifierModel that reads a BiLSTM."""


class BiLstmSpanModel(_OnBiLstm, heads.SpanModel):
  """A SpanModel that reads a BiLSTM."""


class _ClassificationTask(classification_task.ClassificationTask):
  model = BiLstmClassifierModel


class _SquadTask(squad_task.SquadTask):
  model = BiLstmSpanModel


def run(
  config: (
    classification_config.ClassificationConfig | squad_config.SquadConfig
  ),
) -> Results | None:
  """Fine-tunes and evaluates with a BiLSTM; see fine_tuning.run."""
  if isinstance(config, squad_config.SquadConfig):
    return fine_tuning.run(config, _SquadTask)
  return fine_tuning.run(config, _ClassificationTask)
