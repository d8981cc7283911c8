"""Settings of a training run. Imports no TensorFlow."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from bert_tf import names, settings

Train = TypeVar("Train", bound="TrainConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeConfig:
  """How a step is computed: its speed, memory and rounding."""

  use_xla: bool | None = settings.devices(
    None,
    "Whether to compile the training step with XLA. Default: auto (None in "
    "Python), which compiles on GPUs and TPUs, and on CPUs runs of 200 or more "
    "steps with batches of one shape.",
  )
  gradient_accumulation_steps: int = settings.devices(
    1,
    "How many micro-batches each device splits its part of a batch into, to "
    "save memory.",
    minimum=1,
  )
  recompute: bool = settings.devices(
    False,
    "Whether to compute activations again in the backward pass, which saves "
    "memory and takes about 15% more time.",
  )
  precision: str = settings.devices(
    "float32",
    "The data type of matmuls. tf32 rounds their factors to 10 bits, on GPUs "
    "since Ampere. Variables, losses and checkpoints are always float32.",
    choices=tuple(names.PRECISIONS),
  )
  deterministic: bool = settings.devices(
    False, "Whether every run gives the same bits. This is slower on GPUs."
  )

  def __post_init__(self) -> None:
    settings.check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(ComputeConfig):
  """Settings of every training run.

  Fields without `settings.setting` have no flag here. The configs of
  pre-training and fine-tuning below turn them into settings.
  """

  # Checkpoint to start from: a prefix or an output_dir. A checkpoint in this
  # run's own output_dir has precedence. cli/model_flags.py makes the flag.
  init_checkpoint: str | None = None
  output_dir: str = settings.checkpoints(
    help="The folder for checkpoints, events and results.",
    original=True,
    writes="folder",
  )
  train_batch_size: int = settings.training(
    32, "The size of a training batch.", minimum=1, original=True, main=True
  )
  learning_rate: float = settings.training(
    5e-5, "The peak learning rate.", original=True, main=True, minimum=0.0
  )
  # Settings of pre-training. Fine-tuning computes its steps from the data.
  num_train_steps: int = 100000
  num_warmup_steps: int = 10000
  train_hours: float = 0.0
  train_minutes: float = 0.0
  stop_at_step: int | None = None
  save_checkpoints_steps: int = settings.checkpoints(
    1000, "The steps between two checkpoints.", minimum=1, original=True
  )
  iterations_per_loop: int = settings.devices(
    1000, "The maximum steps of a tf.function call.", minimum=1, original=True
  )
  seed: int = settings.training(
    12345, "The seed of initial values, dropout and the order of the data."
  )
  keep_checkpoint_max: int = settings.checkpoints(
    5, "How many of the newest checkpoints to keep; 0 keeps all.", minimum=0
  )
  log_every_steps: int = settings.checkpoints(
    100, "The steps between two log lines.", minimum=1
  )
  # In Python another optimizer of Keras, such as keras.optimizers.Lamb, which
  # keeps its learning rate or schedule, weight decay and clipping.
  optimizer: Any = None
  # Settings of fine-tuning.
  encoder_only: bool = False
  freeze_layers: int | None = None
  lora_rank: int | None = None
  lora_alpha: float | None = None
  lora_adapter: str | None = None
  eval_every_steps: int = settings.evaluation(
    0,
    "The steps between evaluations during training; 0 for none. One follows "
    "the last step. The best weights are saved in output_dir/best.",
    minimum=0,
  )
  best_metric: str | None = settings.evaluation(
    None,
    "The result that decides which weights are best: the lowest loss or "
    "perplexity, or the highest value of any other. Default: masked_lm_loss "
    "in pre-training, else the main score of the task.",
  )
  early_stopping_patience: int = settings.evaluation(
    0,
    "How many evaluations without a better result end training; 0 for never.",
    minimum=0,
  )

  @property
  def train_seconds(self) -> float:
    """Seconds to train; 0 if num_train_steps is the budget."""
    return 3600 * self.train_hours + 60 * self.train_minutes

  def __post_init__(self) -> None:
    settings.check(self)
    if self.lora_adapter and not self.init_checkpoint:
      raise ValueError(
        f"lora_adapter {self.lora_adapter} needs its `init_checkpoint`."
      )
    if self.lora_alpha is not None and self.lora_rank == 0:
      raise ValueError(f"lora_alpha {self.lora_alpha} needs `lora_rank`.")
    if self.early_stopping_patience and not self.eval_every_steps:
      raise ValueError(
        f"early_stopping_patience {self.early_stopping_patience} needs "
        "`eval_every_steps`."
      )

  def choose_best_metric(self: Train, results: Sequence[str]) -> Train:
    """Returns the config with a best_metric, by default the first result.

    Raises ValueError unless evaluations have the user's choice as a result.
    """
    if not self.best_metric:
      return dataclasses.replace(self, best_metric=results[0])
    if self.best_metric not in results:
      raise ValueError(
        f"best_metric {self.best_metric!r} is not one of the results, "
        f"{', '.join(results)}."
      )
    if not self.eval_every_steps:
      raise ValueError(
        f"best_metric {self.best_metric} needs `eval_every_steps`."
      )
    return self


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingTrainConfig(TrainConfig):
  """Adds the budget: steps or time."""

  num_train_steps: int = settings.training(
    100000,
    "The number of training steps, counting earlier runs in output_dir.",
    minimum=1,
    original=True,
    main=True,
  )
  num_warmup_steps: int = settings.training(
    10000, "The steps of linear warm-up.", minimum=0, original=True, main=True
  )
  stop_at_step: int | None = settings.training(
    None,
    "The run stops after this step. Without the flag, the command goes on with "
    "the same learning-rate curve, for example on longer sequences.",
    minimum=1,
  )
  train_hours: float = settings.training(
    0.0,
    "How many hours to train, instead of num_train_steps. The run measures its "
    "speed once and writes the number of steps that fill this time into "
    "run.json. Evaluations and checkpoints take extra time.",
    minimum=0.0,
    main=True,
  )
  train_minutes: float = settings.training(
    0.0, "Minutes to train, added to train_hours.", minimum=0.0
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningTrainConfig(TrainConfig):
  """Adds the starting weights, LoRA and frozen layers."""

  encoder_only: bool = settings.model(
    False,
    "Whether to load only the encoder of init_checkpoint. Default: the head is "
    "loaded as well if it was trained for this task and these labels.",
  )
  lora_rank: int | None = settings.model(
    None,
    "The rank of LoRA, which freezes BERT and trains low-rank updates of the "
    "attention projections and the task's own layer. 0 trains all of BERT.",
    minimum=0,
    fallback=0,
  )
  lora_alpha: float | None = settings.model(
    None,
    "LoRA's updates are multiplied by lora_alpha / lora_rank. Default: what "
    "the model's run.json says, else lora_rank.",
    minimum=0.0,
    fallback=None,
  )
  lora_adapter: str | None = settings.model(
    None, "The LoRA adapter to add to init_checkpoint: its run's output_dir."
  )
  freeze_layers: int | None = settings.training(
    None,
    "How many of the first encoder layers to freeze, with the embeddings. 0 "
    "freezes only the embeddings. Default: nothing is frozen.",
    minimum=0,
  )
