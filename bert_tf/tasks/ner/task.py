"""Named entities: a tag for every word (Devlin et al. 2019, 5.3)."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import record_cache
from bert_tf.modeling import Tensor
from bert_tf.tasks import fine_tuning, label_map
from bert_tf.tasks.ner import bilstm as ner_bilstm
from bert_tf.tasks.ner import examples as ner_data
from bert_tf.tasks.ner import feature_based as ner_vectors
from bert_tf.tasks.ner import metrics as ner_results
from bert_tf.tasks.ner import records as ner_features
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.ner.records import Window
from bert_tf.training import config as training_config
from bert_tf.training import estimator, restore, run_dir
from bert_tf.training import results as results_lib

Results = dict[str, float | int]

# What comes first in files of results.
_FIRST_RESULTS = (
  *ner_results.SCORES,
  "accuracy",
  "eval_accuracy",
  "eval_loss",
  "global_step",
  "loss",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerConfig(fine_tuning.DataDirConfig):
  """What `run_ner.py` is asked for; its examples are windows of sentences.

  Attributes:
    train_file: what is trained on; its tags are the labels. It and the next
      two are in data_dir, or whole paths.
    dev_file: what is evaluated on.
    test_file: what is predicted, with or without tags.
    file_format: the columns and the scheme of the tags of these files.
    document_context: whether the sentences around one fill its window.
    feature_layers: None to fine-tune BERT; else one of
      ner_vectors.FEATURE_LAYERS, which are computed once by the BERT of
      init_checkpoint, and a BiLSTM is trained on them. Batches are then of
      sentences.
    feature_dir: where these are kept; None for output_dir.
  """

  train_file: str = "train.txt"
  dev_file: str = "dev.txt"
  test_file: str = "test.txt"
  file_format: ner_data.FileFormat = ner_data.FileFormat()
  document_context: bool = False
  feature_layers: str | None = None
  feature_dir: str | None = None


@dataclasses.dataclass(frozen=True)
class _Part:
  """One of the files.

  Attributes:
    sentences: of the file, in its order.
    windows: that label their words, in the same order.
  """

  sentences: Sequence[Sentence]
  windows: Sequence[Window]

  @property
  def is_tagged(self) -> bool:
    """Whether the tags are known."""
    return self.sentences[0].tags is not None


def run(config: NerConfig) -> Results | None:
  """Trains, evaluates and predicts as asked; writes the result files.

  Returns:
    What the evaluation found and, as test_*, the scores of a test file with
    tags; nothing without both; None if a signal ended the training.

  Raises:
    ValueError: if flags, config, vocabulary, data, checkpoint and output_dir
      do not fit one another, before the first step.
    ImportError: without seqeval, if there is something to score.
  """
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  tokenizer = tokenization.FullTokenizer(
    config.vocab_file, config.do_lower_case
  )
  _check(config, bert_config, len(tokenizer.vocab))
  labels, parts = _read(config, tokenizer)
  if config.do_train:
    config = dataclasses.replace(
      config, train=_with_steps(config, labels, parts["train"])
    )
  output_dir = config.train.output_dir
  restore.check_classifier_head(
    output_dir,
    None if config.feature_layers else config.train.init_checkpoint,
    len(labels),
  )
  info = run_dir.RunInfo(task="ner", do_lower_case=config.do_lower_case)
  run_dir.prepare_output_dir(output_dir, info, bert_config, config.vocab_file)
  label_map.write(output_dir, _label_spec(config, labels))
  inputs = ner_features.write_inputs(
    output_dir,
    {name: part.windows for name, part in parts.items()},
    labels,
    config.max_seq_length,
    bert_config.vocab_size,
  )
  if config.feature_layers:
    inputs = ner_vectors.write_inputs(
      config.feature_dir or output_dir,
      {name: part.sentences for name, part in parts.items()},
      inputs,
      labels,
      bert_config,
      config.train.init_checkpoint,
      config.feature_layers,
      {
        **record_cache.tokenizer_settings(tokenizer),
        "max_seq_length": config.max_seq_length,
        "document_context": config.document_context,
      },
    )
  runner = build_estimator(
    bert_config, len(labels), config.train, config.feature_layers
  )
  return _Run(config, labels, parts, inputs, runner).run()


def build_estimator(
  bert_config: modeling.BertConfig,
  num_labels: int,
  train_config: training_config.TrainConfig,
  feature_layers: str | None = None,
) -> estimator.Estimator:
  """Returns the Estimator of a model that labels words.

  Args:
    bert_config: the model's sizes.
    num_labels: C.
    train_config: how to train.
    feature_layers: as of NerConfig; the model is a BiLSTM if it is not None.
  """

  def model_fn() -> keras.Model:
    if not feature_layers:
      return heads.TokenModel(bert_config, num_labels)
    return ner_bilstm.BiLstmModel(
      ner_vectors.num_layers(feature_layers, bert_config),
      bert_config.hidden_size,
      num_labels,
      ner_vectors.is_summed(feature_layers),
    )

  if feature_layers:
    # Its BERT is no part of the model.
    train_config = dataclasses.replace(train_config, init_checkpoint=None)
  return estimator.Estimator(
    model_fn,
    losses.token_loss,
    losses.token_weights,
    losses.token_metrics,
    train_config,
  )


class _Run:
  """Does what was asked for once all of it was checked."""

  def __init__(
    self,
    config: NerConfig,
    labels: Sequence[str],
    parts: Mapping[str, _Part],
    inputs: ner_features.WindowInputs | ner_vectors.VectorInputs,
    runner: estimator.Estimator,
  ) -> None:
    self._config = config
    self._labels = labels
    self._parts = parts
    self._inputs = inputs
    self._runner = runner

  def run(self) -> Results | None:
    """Trains, evaluates and predicts; see `run`."""
    config = self._config
    if config.do_train:
      self._train()
      if self._runner.was_interrupted:
        return None
    results = {}
    if config.do_eval or config.do_predict:
      self._runner.load_for_inference()
    if config.do_eval:
      results, predicted = self._evaluate()
      self._write("eval", self._parts["dev"], results, predicted)
    if config.do_predict:
      found = self._predict()
      results |= {f"test_{name}": value for name, value in found.items()}
    return results

  def _train(self) -> None:
    """Trains on the training file."""
    train = self._config.train

    def training_batches(steps_done: int) -> tf.data.Dataset:
      return self._inputs.training_batches(
        train.train_batch_size, train.seed, steps_done
      )

    self._runner.train(training_batches, lambda: self._evaluate()[0])

  def _evaluate(self) -> tuple[Results, list[list[str]]]:
    """Returns results and tags of the dev file; in training, as it stands."""
    part = self._parts["dev"]
    label_ids = []
    predicted = []

    def collect(logits: Tensor, batch: Mapping[str, Tensor]) -> None:
      label_ids.append(_label_ids(logits.numpy(), batch))

    def scores() -> dict[str, float]:
      predicted.extend(self._tags(part, label_ids))
      return ner_results.scores(part.sentences, predicted, self._labels)

    batches = self._inputs.batches_once("dev", self._config.eval_batch_size)
    results = self._runner.evaluate(
      batches, on_outputs=collect, more_results=scores
    )
    results["eval_loss"] = results.pop("token_loss")
    results["eval_accuracy"] = results.pop("accuracy")
    return results, predicted

  def _predict(self) -> Results:
    """Tags the test file; returns its scores, none if it has no tags."""
    part = self._parts["test"]
    batches = self._inputs.batches_once("test", self._config.predict_batch_size)
    label_ids = [
      _label_ids(logits, batch)
      for batch, logits in zip(batches, self._runner.predict(batches))
    ]
    predicted = self._tags(part, label_ids)
    results = {}
    if part.is_tagged:
      results = ner_results.scores(part.sentences, predicted, self._labels)
      results["accuracy"] = ner_results.accuracy(part.sentences, predicted)
    self._write("test", part, results, predicted)
    return results

  def _tags(
    self, part: _Part, label_ids: Sequence[np.ndarray]
  ) -> list[list[str]]:
    """Returns the tags of each sentence of a file.

    Args:
      part: the file.
      label_ids: int [W] of each batch; together those of all words, in order.
    """
    tags = (self._labels[i] for i in np.concatenate(label_ids))
    return [[next(tags) for _ in s.words] for s in part.sentences]

  def _write(
    self,
    name: str,
    part: _Part,
    results: Results,
    predicted: Sequence[Sequence[str]],
  ) -> None:
    """Writes `NAME_predictions.txt` and, if any, `NAME_results.txt`."""
    prefix = os.path.join(self._config.train.output_dir, name)
    ner_results.write_predictions(
      f"{prefix}_predictions.txt", part.sentences, predicted
    )
    if results:
      results_lib.write_results(
        f"{prefix}_results.txt", results, first=_FIRST_RESULTS
      )


def _label_ids(logits: np.ndarray, batch: Mapping[str, Tensor]) -> np.ndarray:
  """Returns the likeliest label of each labelled word, int [W], in order."""
  return logits.argmax(axis=-1)[batch["label_mask"].numpy() == 1]


def _check(
  config: NerConfig, bert_config: modeling.BertConfig, vocab_size: int
) -> None:
  """Raises ValueError where flags, config and vocabulary do not fit."""
  fine_tuning.check(config, bert_config, vocab_size)
  if config.feature_layers:
    ner_vectors.check_layers(config.feature_layers, bert_config)
    if not config.train.init_checkpoint:
      raise ValueError(
        "features are computed by a BERT that is trained: set "
        "--init_checkpoint."
      )


def _read(
  config: NerConfig, tokenizer: tokenization.FullTokenizer
) -> tuple[tuple[str, ...], dict[str, _Part]]:
  """Returns the labels, and what is needed of "train", "dev" and "test"."""
  output_dir = config.train.output_dir
  saved = label_map.read(output_dir)
  if saved is not None:
    # Labels of texts would be no tags.
    label_map.check(output_dir, _label_spec(config, saved.labels))
  paths = _paths(config, needs_labels=saved is None)
  found = {
    name: ner_data.read_sentences(path, config.file_format)
    for name, path in paths.items()
  }
  untagged = [n for n, s in found.items() if s[0].tags is None and n != "test"]
  if untagged:
    raise ValueError(
      f"{paths[untagged[0]]} has no column of tags beside that of the words; "
      "only the test file may go without."
    )
  labels = saved.labels if saved else ner_data.infer_labels(found["train"])
  if len(labels) < 2:
    raise ValueError(f"{paths['train']} has no entity, every tag is O.")
  if not config.do_train:
    found.pop("train", None)
  if any(name != "train" and s[0].tags for name, s in found.items()):
    ner_results.import_seqeval()  # Not missed after hours of training.
  windower = ner_features.Windower(
    tokenizer, config.max_seq_length, config.document_context
  )
  parts = {}
  for name, sentences in found.items():
    ner_data.check_labels(paths[name], sentences, labels)
    windows = windower.windows(paths[name], sentences)
    parts[name] = _Part(sentences, windows)
  return labels, parts


def _paths(config: NerConfig, needs_labels: bool) -> dict[str, str]:
  """Returns the files that are needed, of which all are there."""
  evaluates = config.do_train and config.train.eval_every_steps
  needed = {
    "train": config.do_train or needs_labels,
    "dev": config.do_eval or evaluates,
    "test": config.do_predict,
  }
  paths = {
    name: os.path.join(config.data_dir, getattr(config, f"{name}_file"))
    for name, is_needed in needed.items()
    if is_needed
  }
  for name, path in paths.items():
    if os.path.isfile(path):
      continue
    if name == "train" and not config.do_train:
      raise ValueError(
        f"the labels are not known: {config.train.output_dir} has no "
        f"{label_map.FILE} and there is no {path}; copy the {label_map.FILE} "
        "of the run that trained the model into --output_dir."
      )
    raise ValueError(
      f"there is no {path}; set --{name}_file to its name in --data_dir, or to "
      "its whole path."
    )
  return paths


def _with_steps(
  config: NerConfig, labels: Sequence[str], part: _Part
) -> training_config.TrainConfig:
  """Returns how to train, with the steps that the windows make."""
  known = [*ner_results.result_names(labels), "eval_accuracy", "eval_loss"]
  metric = config.train.best_metric
  if metric and metric not in (*known, "loss"):
    raise ValueError(
      f"best_metric {metric!r} is no result; use {', '.join(known)} or loss."
    )
  inputs, noun = part.windows, "training windows"
  if config.feature_layers:
    inputs, noun = part.sentences, "training sentences"
  return fine_tuning.train_config(config, len(inputs), noun, "f1")


def _label_spec(
  config: NerConfig, labels: Sequence[str]
) -> label_map.LabelSpec:
  """Returns what label_map.json says of a run."""
  name = "ner"
  if config.feature_layers:
    name = f"ner on features {config.feature_layers}"
  return label_map.LabelSpec(name, label_map.WORDS, tuple(labels))
