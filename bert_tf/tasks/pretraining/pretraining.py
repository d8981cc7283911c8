"""Pre-training (Devlin et al. 2019, 3.1): masked LM and next sentences."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf
from absl import logging

from bert_tf import distribution, modeling, settings, tokenization
from bert_tf.checkpoint import checkpoints
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_folder import RunFolder
from bert_tf.checkpoint.run_info import RunInfo, Training
from bert_tf.data import input_pipeline
from bert_tf.data.pretraining import (
  dynamic_masking,
  masking,
  pretraining_shards,
)
from bert_tf.data.pretraining.pretraining_records import (
  PretrainingRecords,
  RecordFormat,
)
from bert_tf.model import heads, losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks.pretraining import pretraining_config, pretraining_start
from bert_tf.tasks.pretraining.pretraining_config import PretrainingConfig
from bert_tf.tasks.run import Data, Run
from bert_tf.text import letter_case
from bert_tf.training import results
from bert_tf.training.config import TrainConfig
from bert_tf.training.estimator import Estimator
from bert_tf.training.objective import BatchSums, Features, Objective

# Names of an evaluation's results. The first is the default best_metric.
_RESULTS = (
  "masked_lm_loss",
  "masked_lm_accuracy",
  "perplexity",
  "next_sentence_loss",
  "next_sentence_accuracy",
  "loss",
)

# Adds labels to batches of records, as `mask` does.
Labeller = Callable[..., PretrainingRecords]


def mask(
  config: PretrainingConfig, model: ModelFolder, records: PretrainingRecords
) -> PretrainingRecords:
  """Turns on dynamic masking for unmasked records."""
  model.config.check_bidirectional(model.config_file)
  records.check(model.config.vocab_size)
  if records.record_format.is_masked:
    return records
  if not model.vocab_file:
    raise ValueError(
      f"{records.files.paths[0]} holds unmasked records. Set `vocab_file` to "
      "their vocabulary, so that they can be masked."
    )
  vocab = model.vocab
  masking.check_special_tokens(vocab, model.vocab_file)
  records.check_begins(vocab[tokenization.CLS], model.vocab_file)
  masker = dynamic_masking.DynamicMasker(
    settings.extract(config, masking.MaskingConfig), vocab, config.train.seed
  )
  return dataclasses.replace(records, mask=masker.mask)


@dataclasses.dataclass(frozen=True)
class PretrainingObjective(Objective):
  """The losses of both heads, or of the masked LM only."""

  no_nsp: bool = False  # Whether the next-sentence loss is dropped.

  def name_results(self, means: Mapping[str, float]) -> dict[str, float]:
    """Adds the perplexity of the masked pieces."""
    # The limit prevents an overflow.
    perplexity = math.exp(min(means["masked_lm_loss"], 700.0))
    return {**means, "perplexity": perplexity}

  def weights(self, features: Features, training: bool) -> dict[str, Tensor]:
    """Returns the weights of the losses."""
    return losses.pretraining_weights(features)

  def loss_sums(
    self, model: heads.PretrainingModel, features: Features, training: bool
  ) -> BatchSums:
    """Returns the losses and metrics of a batch.

    The model returns sums in place of outputs, so that memory never holds all
    logits at once.
    """
    sums = model.loss_sums(features, training)
    losses_sums = losses.loss_from_sums(sums, features)
    metrics = losses.metrics_from_sums(sums, features)
    if self.no_nsp:
      del losses_sums["next_sentence_loss"]
      del metrics["next_sentence_loss"], metrics["next_sentence_accuracy"]
    return BatchSums(losses_sums, metrics)

  def unused_variables(
    self, model: heads.PretrainingModel
  ) -> list[keras.Variable]:
    """Returns, with no_nsp, the variables of the pooler and of the NSP head."""
    if not self.no_nsp:
      return model.unused_variables
    return [
      *model.bert.pooler.trainable_variables,
      *model.next_sentence_head.trainable_variables,
    ]


def build_estimator(
  bert_config: modeling.BertConfig,
  train_config: TrainConfig,
  no_nsp: bool = False,
) -> Estimator:
  """Returns the Estimator; no_nsp drops the next-sentence loss."""
  return Estimator(
    lambda: heads.PretrainingModel(bert_config),
    PretrainingObjective(no_nsp),
    train_config,
  )


def run(
  config: PretrainingConfig,
  label: Labeller = mask,
  set_values: Callable[..., None] = pretraining_start.set_values,
  build_estimator: Callable[..., Estimator] = build_estimator,
) -> dict[str, float | int] | None:
  """Trains and evaluates as configured; writes `eval_results.txt`.

  Args:
    config: the settings of the command.
    label: makes the labels of records, as `mask`.
    set_values: sets the initial values of a new model, unless they are random.
    build_estimator: makes the Estimator of the model and its objective, as
      `build_estimator`.

  Returns:
    The results; None without an evaluation, or if a signal ended the training.

  Raises:
    ValueError: before the first step, if flags, config, vocabulary, records and
      output_dir do not fit together.
  """
  folder = RunFolder(config.train.output_dir, "pretraining")
  model = ModelFolder.open(
    config.train.init_checkpoint,
    output_dir=folder.path,
    bert_config_file=config.bert_config_file,
    vocab_file=config.vocab_file,
  )
  config = dataclasses.replace(
    config,
    bert_config_file=model.config_file,
    vocab_file=model.vocab_file,
    train=dataclasses.replace(config.train, init_checkpoint=model.weights),
  )
  check(config, model)
  best_metric = config.train.best_metric or _RESULTS[0]
  train = dataclasses.replace(config.train, best_metric=best_metric)
  config = dataclasses.replace(config, train=train)
  records = _open_records(config, model, label)
  if not config.do_train and not folder.is_begun:
    names = heads.MASKED_LM.shapes
    if lacking := [name for name in names if name not in model.shapes]:
      raise ValueError(
        f"There is no trained model, since {model.weights or folder.path} has "
        f"no {lacking[0]}. Set `do_train`, or set `init_checkpoint` to a "
        "trained model."
      )
  with folder.exclusive(config.do_train) as folder:
    first = records["train" if "train" in records else "dev"]
    # The letter case is that of the records, or of the run in output_dir.
    # Without training, the run comes first.
    cases = [
      pretraining_shards.read_case(first.files.paths),
      letter_case.get_case(folder.info and folder.info.settings),
    ]
    known = [case for case in cases if case.do_lower_case is not None]
    unknown = [letter_case.Case()]
    info = RunInfo(
      task=folder.task,
      settings=(known or unknown)[0 if config.do_train else -1],
      training=folder.info.training if folder.info else Training(),
    )
    folder.prepare(info, model)
    num_records = first.files.num_records
    results.add_command(folder.path, config, f"{num_records} records")
    runner = build_estimator(model.config, train, config.no_nsp)
    data = {
      split: _make_data(config, model.config, each)
      for split, each in records.items()
    }
    if config.do_train:
      num_steps = train.num_train_steps
      num_epochs = num_steps * train.train_batch_size / num_records
      work = f"{num_steps:,} steps, {num_epochs:.1f} epochs"
      if train.train_seconds:
        work = f"{train.train_seconds / 60:g} min"
      logging.info(
        f"{num_records:,} {first.record_format} records of length "
        f"{config.max_seq_length}, batches of {train.train_batch_size}: {work}."
      )
      is_new = not checkpoints.list_checkpoints(folder.path)
      if is_new and config.initial_values != pretraining_config.RANDOM:
        logging.info("Counting word pieces for the initial values.")
        set_values(runner.model, data["train"].training(0), train.seed)
    run = Run(runner.objective, config, folder, runner, data)
    return run.execute() or None


def check(config: PretrainingConfig, model: ModelFolder) -> None:
  """Raises ValueError if the settings do not fit together or the model."""
  train = config.train
  if not config.do_train and not config.do_eval:
    raise ValueError("There is nothing to do. Set `do_train` or `do_eval`.")
  train.check_best_metric(
    [n for n in _RESULTS if not (config.no_nsp and "sentence" in n)]
  )
  model.config.check_lengths(config.max_seq_length, model.config_file)
  if config.max_predictions_per_seq > config.max_seq_length:
    raise ValueError(
      f"max_predictions_per_seq {config.max_predictions_per_seq} exceeds "
      f"max_seq_length {config.max_seq_length}. Lower it."
    )
  if model.vocab_file:
    _ = model.vocab  # Raises ValueError if it does not fit the config.
  if not config.do_train:
    return
  if train.init_checkpoint and (
    config.initial_values != pretraining_config.RANDOM
  ):
    raise ValueError(
      f"initial_values={config.initial_values} and init_checkpoint "
      f"{train.init_checkpoint} cannot both be set. Leave out one of them."
    )
  steps = train.num_train_steps
  if not train.train_seconds and train.num_warmup_steps >= steps:
    logging.warning(
      f"num_warmup_steps {train.num_warmup_steps} is not below "
      f"num_train_steps {steps}, so the learning rate only rises."
    )


def _open_records(
  config: PretrainingConfig, model: ModelFolder, label: Labeller
) -> dict[str, PretrainingRecords]:
  """Returns the records of "train" and "dev", as far as they are needed.

  Opening records reads them completely.
  """
  evaluates = config.do_eval or config.train.eval_every_steps > 0
  patterns = {}
  if config.do_train or not config.eval_input_file:
    patterns = {"train": config.input_file, "dev": config.input_file}
  if config.eval_input_file and evaluates:
    patterns["dev"] = config.eval_input_file

  @functools.cache
  def open_labelled(pattern: str) -> PretrainingRecords:
    # The format is that of the first record, with the config's sizes.
    files = input_pipeline.open_records(pattern)
    record_format = RecordFormat.read(files.paths[0])
    changes = {"max_seq_length": config.max_seq_length}
    # max_predictions_per_seq is per instance; packed records hold several.
    if record_format.is_masked and not record_format.max_instances:
      changes["max_predictions_per_seq"] = config.max_predictions_per_seq
    record_format = dataclasses.replace(record_format, **changes)
    return label(config, model, PretrainingRecords(files, record_format))

  records = {
    split: open_labelled(pattern) for split, pattern in patterns.items()
  }
  if not any(each.mask for each in records.values()):
    [path, *_] = next(iter(records.values())).files.paths
    for field in dataclasses.fields(masking.MaskingConfig):
      is_given = getattr(config, field.name) != field.default
      if is_given and field.name != "max_predictions_per_seq":
        raise ValueError(
          f"{field.name} is for unmasked records, but {path} holds masked "
          f"ones. Leave out `{field.name}`, or create the records with "
          "`mask=False`."
        )
  return records


def _make_data(
  config: PretrainingConfig,
  bert_config: modeling.BertConfig,
  records: PretrainingRecords,
) -> Data:
  files, spec = records.files, records.record_format.spec()
  vocab_size, num_segments = bert_config.vocab_size, bert_config.type_vocab_size
  train, size = config.train, config.train.train_batch_size

  def training(steps_done: int) -> tf.data.Dataset:
    batches = input_pipeline.training_dataset(
      *(files, spec, size, train.seed, steps_done, vocab_size),
      type_vocab_size=num_segments,
    )
    return records.label(batches, size, steps_done)

  def evaluation(batch_size: int) -> tf.data.Dataset:
    # If a file is too short for max_eval_steps, the original reads it again, so
    # that some records count more often than others. Here, each counts once.
    num_batches = config.max_eval_steps
    if distribution.needs_full_batches():
      # Rows that fill the last batch would count as pairs of sentences.
      num_batches = min(num_batches, files.num_records // batch_size)
    batches = input_pipeline.finite_dataset(
      files, spec, batch_size, vocab_size, num_segments
    )
    return records.label(batches, batch_size).take(num_batches)

  return Data(spec, training, evaluation)
