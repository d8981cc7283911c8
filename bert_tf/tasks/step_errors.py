"""Turns exhausted memory into advice on settings that need less."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from bert_tf import settings
from bert_tf.files import errors
from bert_tf.tasks import config as config_lib
from bert_tf.tasks.pretraining import pretraining_config

# Settings of a training that lower its memory without another result.
_MORE_MEMORY = ("a higher `gradient_accumulation_steps`", "`recompute`")

Config = config_lib.FineTuningConfig | pretraining_config.PretrainingConfig


@contextlib.contextmanager
def explained(
  config: Config, batch_setting: str, max_seq_length: int
) -> Iterator[None]:
  """Turns exhausted memory into an OutOfMemoryError with advice.

  batch_setting is the setting of the batch size, such as "eval_batch_size".
  """
  try:
    yield
  except errors.OutOfMemoryError:
    raise  # An evaluation during training has already explained it.
  except (MemoryError, tf.errors.ResourceExhaustedError) as error:
    if errors.system_limit(error) is not None:
      raise
    batch_size = settings.values(config)[batch_setting]
    is_fine_tuning = isinstance(config, config_lib.FineTuningConfig)
    reason = errors.reason(error).rstrip(".") or type(error).__name__
    remedies = [
      *(_MORE_MEMORY if batch_setting == "train_batch_size" else ()),
      f"a lower `{batch_setting}`",
      # In pre-training, the records determine the length.
      *(["a lower `max_seq_length`"] if is_fine_tuning else []),
    ]
    raise errors.OutOfMemoryError(
      f"out of memory ({reason}): a batch of `{batch_setting}={batch_size}` "
      f"with {max_seq_length} word pieces is too large. Use "
      f"{' or '.join(remedies)}."
    ) from error
