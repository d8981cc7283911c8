"""Pre-training (Devlin et al. 2019, 3.1): masked LM and next sentences."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import keras
import tensorflow as tf
from absl import logging

from bert_tf import distribution, modeling, settings, tokenization
from bert_tf.checkpoint import checkpoints, run_folder, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data import input_pipeline
from bert_tf.data.pretraining import (
  dynamic_masking,
  masking,
  pretraining_records,
  pretraining_shards,
)
from bert_tf.model import heads, losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import run as run_lib
from bert_tf.tasks.pretraining import pretraining_config, pretraining_start
from bert_tf.text import letter_case
from bert_tf.training import config as training_config
from bert_tf.training import estimator
from bert_tf.training import objective as objective_lib
from bert_tf.training import results as results_lib

# Names of an evaluation's results. The first is the default best_metric.
_RESULTS = (
  "masked_lm_loss",
  "masked_lm_accuracy",
  "perplexity",
  "next_sentence_loss",
  "next_sentence_accuracy",
  "loss",
)

# Tells records how to label their batches, as `mask` does.
Labeller = Callable[..., pretraining_records.PretrainingRecords]
# Sets the initial values of a model, as `pretraining_start.set_values` does.
InitialValues = Callable[..., None]


def mask(
  config: pretraining_config.PretrainingConfig,
  model: ModelFolder,
  records: pretraining_records.PretrainingRecords,
) -> pretraining_records.PretrainingRecords:
  """Lets records be masked while they are read, unless they are already."""
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
class PretrainingObjective:
  """The losses of both heads, or of the masked LM only."""

  no_nsp: bool = False  # Whether the next-sentence loss is dropped.

  has_loss: ClassVar[bool] = True
  first_results: ClassVar[tuple[str, ...]] = ()

  def name_results(self, means: Mapping[str, float]) -> dict[str, float]:
    """Adds the perplexity of the masked pieces."""
    # The limit prevents an overflow.
    perplexity = math.exp(min(means["masked_lm_loss"], 700.0))
    return {**means, "perplexity": perplexity}

  def weights(
    self, features: objective_lib.Features, training: bool
  ) -> dict[str, Tensor]:
    """Returns the weights of the losses."""
    return losses.pretraining_weights(features)

  def loss_sums(
    self,
    model: heads.PretrainingModel,
    features: objective_lib.Features,
    training: bool,
  ) -> objective_lib.BatchSums:
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
    return objective_lib.BatchSums(losses_sums, metrics)

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
  train_config: training_config.TrainConfig,
  no_nsp: bool = False,
) -> estimator.Estimator:
  """Returns the Estimator; no_nsp drops the next-sentence loss."""
  return estimator.Estimator(
    lambda: heads.PretrainingModel(bert_config),
    PretrainingObjective(no_nsp),
    train_config,
  )


def run(
  config: pretraining_config.PretrainingConfig,
  label: Labeller = mask,
  set_values: InitialValues = pretraining_start.set_values,
  build_estimator: Callable[..., estimator.Estimator] = build_estimator,
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
  folder = run_folder.RunFolder(config.train.output_dir, "pretraining")
  model = ModelFolder.open_start(
    config.train.init_checkpoint,
    folder.path,
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

  def opened(patterns: str) -> pretraining_records.PretrainingRecords:
    # The format is that of the first record, with the config's sizes.
    files = input_pipeline.open_records(patterns)
    record_format = pretraining_records.RecordFormat.read(files.paths[0])
    changes = {"max_seq_length": config.max_seq_length}
    # max_predictions_per_seq is per instance; packed records hold several.
    if record_format.is_masked and not record_format.max_instances:
      changes["max_predictions_per_seq"] = config.max_predictions_per_seq
    record_format = dataclasses.replace(record_format, **changes)
    read_records = pretraining_records.PretrainingRecords(files, record_format)
    return label(config, model, read_records)

  # Opening records reads them completely, so only needed files are opened.
  read = evaluated = None
  if config.do_train or not config.eval_input_file:
    read = evaluated = opened(config.input_file)
  if config.eval_input_file and (
    config.do_eval or config.train.eval_every_steps
  ):
    evaluated = opened(config.eval_input_file)
  records = read or evaluated
  assert records
  if not records.mask and not (evaluated and evaluated.mask):
    for field in dataclasses.fields(masking.MaskingConfig):
      name = field.name
      if name == "max_predictions_per_seq":
        continue
      if getattr(config, name) != field.default:
        raise ValueError(
          f"{name} is for unmasked records, but {records.files.paths[0]} holds "
          f"masked ones. Leave out `{name}`, or create the records with "
          "`mask=False`."
        )
  if not config.do_train and not folder.is_begun:
    names = heads.MASKED_LM.shapes
    if lacking := [name for name in names if name not in model.shapes]:
      raise ValueError(
        f"There is no trained model, since {model.weights or folder.path} has "
        f"no {lacking[0]}. Set `do_train`, or set `init_checkpoint` to a "
        "trained model."
      )
  with folder.exclusive(config.do_train) as folder:
    return _run(
      config, model, folder, records, evaluated, set_values, build_estimator
    )


def _run(
  config: pretraining_config.PretrainingConfig,
  model: ModelFolder,
  folder: run_folder.RunFolder,
  records: pretraining_records.PretrainingRecords,
  evaluated: pretraining_records.PretrainingRecords | None,
  set_values: InitialValues,
  build_estimator: Callable[..., estimator.Estimator],
) -> dict[str, float | int] | None:
  # The letter case is that of the records, or of the run in output_dir. Without
  # training, the run comes first.
  cases = [
    pretraining_shards.read_case(records.files.paths),
    letter_case.get_case(folder.info and folder.info.settings),
  ]
  known = [case for case in cases if case.do_lower_case is not None]
  unknown = [letter_case.Case()]
  case = (known or unknown)[0 if config.do_train else -1]
  training = folder.info.training if folder.info else run_info.Training()
  info = run_info.RunInfo(
    task="pretraining",
    settings=case,
    training=dataclasses.replace(
      training,
      **results_lib.arithmetic_fields(
        config.train, folder.info, config.do_train
      ),
    ),
  )
  folder.prepare(info, model)
  train = dataclasses.replace(
    config.train, best_metric=config.train.best_metric or _RESULTS[0]
  )
  results_lib.add_command(
    folder.path,
    dataclasses.replace(config, train=train),
    f"{records.files.num_records} records",
  )
  runner = build_estimator(model.config, train, config.no_nsp)
  data = {"train": _make_data(config, model.config, records)}
  if evaluated:
    data["dev"] = _make_data(config, model.config, evaluated)
  if config.do_train:
    num_records = records.files.num_records
    work = f"{train.train_seconds / 60:g} min"
    if not train.train_seconds:
      num_steps = train.num_train_steps
      num_epochs = num_steps * train.train_batch_size / num_records
      work = f"{num_steps:,} steps, {num_epochs:.1f} epochs"
    logging.info(
      f"{num_records:,} {records.record_format} records of length "
      f"{config.max_seq_length}, batches of {train.train_batch_size}: {work}."
    )
    is_new = not checkpoints.list_checkpoints(folder.path)
    if is_new and config.initial_values != pretraining_config.RANDOM:
      logging.info("Counting word pieces for the initial values.")
      set_values(runner.model, data["train"].training(0), train.seed)
  objective = runner.objective
  return run_lib.Run(objective, config, folder, runner, data).execute() or None


def _make_data(
  config: pretraining_config.PretrainingConfig,
  bert_config: modeling.BertConfig,
  records: pretraining_records.PretrainingRecords,
) -> run_lib.Data:
  sizes = bert_config.vocab_size, bert_config.type_vocab_size
  train, num_records = config.train, records.files.num_records

  def evaluation(batch_size: int) -> tf.data.Dataset:
    # If a file is too short for max_eval_steps, the original reads it again, so
    # that some records count more often than others. Here, each counts once.
    num_batches = config.max_eval_steps
    if distribution.needs_full_batches():
      # Rows that fill the last batch would count as pairs of sentences.
      num_batches = min(num_batches, num_records // batch_size)
    return records.evaluation_dataset(batch_size, *sizes).take(num_batches)

  return run_lib.Data(
    records.spec,
    num_records,
    lambda steps_done: records.training_dataset(
      train.train_batch_size, train.seed, steps_done, *sizes
    ),
    evaluation,
  )


def check(
  config: pretraining_config.PretrainingConfig, model: ModelFolder
) -> None:
  """Raises ValueError if the settings do not fit together or the model."""
  if not config.do_train and not config.do_eval:
    raise ValueError("There is nothing to do. Set `do_train` or `do_eval`.")
  config.train.check_best_metric(
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
  if config.do_train:
    train = config.train
    is_random = config.initial_values == pretraining_config.RANDOM
    if train.init_checkpoint and not is_random:
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
