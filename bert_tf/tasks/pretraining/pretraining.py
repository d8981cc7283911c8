"""Pre-training (Devlin et al. 2019, 3.1): masked LM and next sentences."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf
from absl import logging

from bert_tf import distribution, modeling, settings, tokenization
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_info import RunInfo
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
from bert_tf.tasks.rows import Results
from bert_tf.tasks.run import Data, Run, read_records
from bert_tf.tasks.setup import Setup
from bert_tf.text import letter_case
from bert_tf.training.objective import BatchSums, Features, Objective

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

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the results. The first is the default best_metric."""
    names = ("masked_lm_loss", "masked_lm_accuracy", "perplexity", "loss")
    nsp = ("next_sentence_loss", "next_sentence_accuracy")
    return names if self.no_nsp else (*names, *nsp)

  def build_model(self, config: modeling.BertConfig) -> heads.PretrainingModel:
    """Returns BERT with both heads, with random values."""
    return heads.PretrainingModel(config)

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


def run(
  config: PretrainingConfig,
  label: Labeller = mask,
  set_values: Callable[..., None] = pretraining_start.set_values,
  objective: Objective | None = None,
) -> Results | None:
  """Trains and evaluates as configured; writes `eval_results.txt`.

  Args:
    config: the settings of the command.
    label: makes the labels of records, as `mask`.
    set_values: sets the initial values of a new model, unless they are random.
    objective: what the model learns; None for a PretrainingObjective.

  Returns:
    The results of the evaluation, if any; None if a signal ended the training.

  Raises:
    ValueError: before the first step, if flags, config, vocabulary, records and
      output_dir do not fit together.
  """
  objective = objective or PretrainingObjective(config.no_nsp)
  setup = Setup.open(config)
  config, start = setup.config, setup.start
  train = config.train.choose_best_metric(objective.metrics)
  records = _open_records(config, start, label)
  if not config.do_train and not setup.folder.is_begun:
    names = heads.MASKED_LM.shapes
    if lacking := [name for name in names if name not in start.shapes]:
      raise ValueError(
        f"There is no trained model, since {start.weights or train.output_dir} "
        f"has no {lacking[0]}. Set `do_train`, or set `init_checkpoint` to a "
        "trained model."
      )
  first = next(iter(records.values()))
  num_records = first.files.num_records

  def describe(saved: RunInfo) -> RunInfo:
    case = pretraining_shards.read_case(first.files.paths)
    if case.do_lower_case is None:
      case = letter_case.get_case(saved.settings)
    return RunInfo(task=saved.task, settings=case, training=saved.training)

  config = dataclasses.replace(config, train=train)
  with Run.prepare(
    dataclasses.replace(setup, config=config),
    objective,
    describe,
    lambda _: {
      split: _read_records(config, start.config, each)
      for split, each in records.items()
    },
    f"{num_records} records",
  ) as run:
    if config.do_train:
      num_epochs = train.num_train_steps * train.train_batch_size / num_records
      work = f"{train.num_train_steps:,} steps, {num_epochs:.1f} epochs"
      if train.train_seconds:
        work = f"{train.train_seconds / 60:g} min"
      logging.info(
        f"{num_records:,} {first.record_format} records of length "
        f"{config.max_seq_length}, batches of {train.train_batch_size}: {work}."
      )
      is_random = config.initial_values == pretraining_config.RANDOM
      if not is_random and not run.folder.is_begun:
        logging.info("Counting word pieces for the initial values.")
        batches = run.data["train"].training(0)
        set_values(run.runner.model, batches, train.seed)
    return run.execute()


def _open_records(
  config: PretrainingConfig, model: ModelFolder, label: Labeller
) -> dict[str, PretrainingRecords]:
  """Returns the records of "train" and "dev", as far as they are needed.

  Opening records reads them completely.
  """

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

  records = {}
  if config.do_train or not config.eval_input_file:
    records["train"] = records["dev"] = open_labelled(config.input_file)
  evaluates = config.do_eval or config.train.eval_every_steps > 0
  if config.eval_input_file and evaluates:
    records["dev"] = open_labelled(config.eval_input_file)
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


def _read_records(
  config: PretrainingConfig,
  bert_config: modeling.BertConfig,
  records: PretrainingRecords,
) -> Data:
  files, spec = records.files, records.record_format.spec()
  data = read_records(config, bert_config, files, spec, records.label)

  def evaluation(batch_size: int) -> tf.data.Dataset:
    # If a file is too short for max_eval_steps, the original reads it again, so
    # that some records count more often than others. Here, each counts once.
    num_batches = config.max_eval_steps
    if distribution.needs_full_batches():
      # Rows that fill the last batch would count as pairs of sentences.
      num_batches = min(num_batches, files.num_records // batch_size)
    return data.evaluation(batch_size).take(num_batches)

  return dataclasses.replace(data, evaluation=evaluation)
