"""Turns failures of steps into advice on settings that avoid them.

Explains exhausted memory, and operations without a deterministic form.
"""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

from bert_tf import modeling, settings
from bert_tf.data import input_pipeline, pretraining_records
from bert_tf.files import errors
from bert_tf.layers import mixed_precision
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import pretraining_config

# Advice beside settings that a run keeps once it has begun.
_IN_NEW_RUN = " (with another `output_dir`)"

Config = config_lib.FineTuningConfig | pretraining_config.PretrainingConfig


@contextlib.contextmanager
def explained(
  config: Config, batch_setting: str, max_seq_length: int
) -> Iterator[None]:
  """Turns TensorFlow's errors in this scope into advice.

  Args:
    config: settings of the run.
    batch_setting: name of the setting for the batch size, such as
      "eval_batch_size".
    max_seq_length: length of the longest sequence, in word pieces.

  Raises:
    OutOfMemoryError: if memory is exhausted. Names the size of a batch and
      settings that lower it.
    ValueError: if an operation has no deterministic form.
  """
  try:
    yield
  except errors.OutOfMemoryError:
    raise  # An evaluation during training has already explained it.
  except (MemoryError, tf.errors.ResourceExhaustedError) as error:
    batch_size = settings.values(config)[batch_setting]
    reason = errors.reason(error).rstrip(".") or type(error).__name__
    raise errors.OutOfMemoryError(
      f"out of memory ({reason}): a batch of `{batch_setting}={batch_size}` "
      f"with {max_seq_length} word pieces is too large.",
      _remedies(config, batch_setting, batch_size),
    ) from error
  except tf.errors.UnimplementedError as error:
    if not (config.train.deterministic and "determinis" in str(error).lower()):
      raise
    reason = errors.reason(error).rstrip(".")
    raise ValueError(
      f"an operation has no deterministic form here: {reason}. Leave "
      "`deterministic` out, or hide the GPUs by CUDA_VISIBLE_DEVICES=-1."
    ) from error


@contextlib.contextmanager
def explained_on_records(
  config: pretraining_config.PretrainingConfig,
  bert_config: modeling.BertConfig,
  batch_setting: str,
  records: Sequence[pretraining_records.PretrainingRecords],
) -> Iterator[None]:
  """Extends `explained` to steps that read records; names a damaged record."""
  read = [(r.files, r.spec) for r in records]
  sizes = bert_config.vocab_size, bert_config.type_vocab_size
  length = max(r.record_format.max_seq_length for r in records)
  with (
    input_pipeline.naming_records(read, *sizes),
    explained(config, batch_setting, length),
  ):
    yield


def _remedies(config: Config, batch_setting: str, batch_size: int) -> list[str]:
  """Returns changes of settings that lower the memory, the cheapest first."""
  train, remedies = config.train, []
  # In pre-training, the records determine the sequence length.
  is_fine_tuning = isinstance(config, config_lib.FineTuningConfig)
  if batch_setting == "train_batch_size":
    num_parts = 2 * train.gradient_accumulation_steps
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if batch_size % (num_parts * replicas) == 0:
      remedies.append(f"`gradient_accumulation_steps={num_parts}`")
    if not train.recompute:
      remedies.append("`recompute`")
    name = mixed_precision.find_16_bit_type()
    if name and train.precision in ("float32", "tf32"):
      remedies.append(f"`precision={name}`")
    if is_fine_tuning and not train.lora_rank:
      remedies.append(f"`lora_rank=8`{_IN_NEW_RUN}")
  remedies.append(f"a lower `{batch_setting}`")
  if is_fine_tuning:
    remedies.append(f"a lower `max_seq_length`{_IN_NEW_RUN}")
  return remedies
