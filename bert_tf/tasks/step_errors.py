"""Turns failures of steps into advice on settings that avoid them.

Explains exhausted memory, and operations without a deterministic form.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import tensorflow as tf

from bert_tf import checkpoints, model_size, modeling, settings
from bert_tf.data import input_pipeline, pretraining_records
from bert_tf.files import errors
from bert_tf.layers import mixed_precision
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import pretraining_config

# Advice beside settings that a run keeps once it has begun.
_IN_NEW_RUN = " (with another `output_dir`)"
_WITH_ITS_WEIGHTS = (
  " (with another `output_dir`, and this run's checkpoint as `init_checkpoint`)"
)

Config = config_lib.FineTuningConfig | pretraining_config.PretrainingConfig


@dataclasses.dataclass(frozen=True)
class Work:
  """Sizes of training, evaluation or prediction steps.

  Attributes:
    batch_setting: name of the setting for the batch size, such as
      "eval_batch_size".
    max_seq_length: length of the longest sequence, in word pieces.
    sequences_per_input: sequences that the model computes per input, such as
      the number of choices.
  """

  batch_setting: str
  max_seq_length: int
  sequences_per_input: int = 1

  @property
  def is_training(self) -> bool:
    """Whether the steps change the weights."""
    return self.batch_setting == "train_batch_size"


@contextlib.contextmanager
def explained(
  config: Config, bert_config: modeling.BertConfig, work: Work
) -> Iterator[None]:
  """Turns TensorFlow's errors in this scope into advice.

  Raises:
    OutOfMemoryError: if memory is exhausted. Names the size of a batch, an
      estimate of the memory that a batch needs, and settings that lower it.
    ValueError: if an operation has no deterministic form.
  """
  try:
    yield
  except errors.OutOfMemoryError:
    raise  # An evaluation during training has already explained it.
  except (MemoryError, tf.errors.ResourceExhaustedError) as error:
    raise _out_of_memory(config, bert_config, work, error) from error
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
    explained(config, bert_config, Work(batch_setting, length)),
  ):
    yield


def _out_of_memory(
  config: Config,
  bert_config: modeling.BertConfig,
  work: Work,
  error: Exception,
) -> errors.OutOfMemoryError:
  batch_size = settings.values(config)[work.batch_setting]
  reason = errors.reason(error).rstrip(".") or type(error).__name__
  num_bytes = _estimate(config, bert_config, work, batch_size)
  return errors.OutOfMemoryError(
    f"out of memory ({reason}): a batch of `{work.batch_setting}={batch_size}` "
    f"with {work.max_seq_length} word pieces takes about "
    f"{num_bytes / 2**20:,.0f} MiB of a device by the estimate of bert-tf "
    "inspect.",
    _remedies(config, work, batch_size),
  )


def _estimate(
  config: Config,
  bert_config: modeling.BertConfig,
  work: Work,
  batch_size: int,
) -> int:
  """Estimates the bytes that a device needs for its share of a batch.

  Gradient accumulation splits a share into micro-batches, of which only one is
  in memory. Assumes float32.
  """
  num_parts = tf.distribute.get_strategy().num_replicas_in_sync
  if work.is_training:
    num_parts *= config.train.gradient_accumulation_steps
  num_sequences = -(-batch_size // num_parts) * work.sequences_per_input
  batch = model_size.BatchSizes(
    train_batch_size=num_sequences, max_seq_length=work.max_seq_length
  )
  terms = (
    model_size.training_memory(bert_config, batch)
    if work.is_training
    else model_size.inference_memory(bert_config, batch)
  )
  return model_size.total(terms)


def _remedies(config: Config, work: Work, batch_size: int) -> list[str]:
  """Returns changes of settings that lower the memory, the cheapest first."""
  train = config.train
  remedies = []
  if work.is_training:
    num_parts = 2 * train.gradient_accumulation_steps
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if batch_size % (num_parts * replicas) == 0:
      remedies.append(f"`gradient_accumulation_steps={num_parts}`")
    if not train.recompute:
      remedies.append("`recompute`")
    name = mixed_precision.find_16_bit_type()
    if name and train.precision in ("float32", "tf32"):
      remedies.append(f"`precision={name}`")
    if _has_setting(train, "lora_rank") and not train.lora_rank:
      remedies.append(f"`lora_rank=8`{_IN_NEW_RUN}")
  remedies.append(f"a lower `{work.batch_setting}`")
  # In pre-training, the records determine the sequence length.
  if isinstance(config, config_lib.FineTuningConfig):
    has_weights = checkpoints.find_latest(train.output_dir) is not None
    where = _IN_NEW_RUN
    if has_weights and not work.is_training:
      where = _WITH_ITS_WEIGHTS
    remedies.append(f"a lower `max_seq_length`{where}")
  return remedies


def _has_setting(config: settings.Dataclass, name: str) -> bool:
  """Returns whether a command with this config has a flag of this name."""
  return settings.get_setting(config.__dataclass_fields__[name]) is not None
