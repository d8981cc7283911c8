"""Named entity recognition: a tag for every word (Devlin et al. 2019, 5.3)."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf import heads, losses
from bert_tf.data import input_pipeline
from bert_tf.files import paths
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks.ner import config as config_lib
from bert_tf.tasks.ner import examples, metrics
from bert_tf.tasks.ner import windows as windows_lib
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.training import objective, results


def run(config: config_lib.NerConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run.

  The scores of a test file with tags are returned as test_*.
  """
  return fine_tuning.run(config, NerTask)


class Tagged(NamedTuple):
  """The sentences of a file and their windows."""

  sentences: Sequence[Sentence]  # In the order of the file.
  windows: Sequence[windows_lib.Window]  # They label all words, in order.


class NerTask(base.Task[Sentence, Tagged]):
  """Labels the words of sentences."""

  config: config_lib.NerConfig
  model = heads.TokenModel
  noun = "training windows"
  label_features = ("label_ids", "label_mask")
  first_results = (
    *metrics.SCORES,
    "accuracy",
    "eval_accuracy",
    "eval_loss",
    "global_step",
    "loss",
  )

  @property
  def result_names(self) -> tuple[str, ...]:
    """The scores of all entities, those of each type, and the means."""
    return (*metrics.result_names(self.labels), *super().result_names)

  def read(self, split: str, path: str) -> list[Sentence]:
    """Reads the sentences of a file."""
    sentences = examples.read_sentences(
      path,
      self.config.word_column,
      self.config.tag_column,
      any_tags=self.label_spec is not None,  # `prepare` compares them.
    )
    if sentences[0].tags is None:
      if split != "test":
        raise ValueError(
          f"{path} has no column of tags next to the words. Only the test file "
          "may lack tags."
        )
    elif split != "train":
      metrics.import_seqeval()  # Fails here, not after hours of training.
    return sentences

  def set_labels(self, train: Sequence[Sentence], source: str) -> None:
    """Sets the labels to O, and B- and I- of each type in the sentences."""
    labels = examples.infer_labels(train)
    if len(labels) < 2:
      raise ValueError(f"{source} has no entities: every tag is O.")
    self.label_spec = run_info.LabelSpec("ner", run_info.WORDS, labels)

  def prepare(self, split: str, sentences: Sequence[Sentence]) -> Tagged:
    """Returns the sentences with the windows that label their words."""
    path, spec = self.files[split].path, self.label_spec
    assert spec
    fault, labelled = "", []
    for sentence in sentences:
      labels = examples.to_labels(sentence.tags or (), spec.labels)
      if None in labels and not fault:
        place = labels.index(None)
        unknown = spec.unknown_label((sentence.tags or ())[place])
        fault = f"{path}:{sentence.line + place}: {unknown} (`tag_column`)"
      tags = None if sentence.tags is None else tuple(map(str, labels))
      labelled.append(sentence._replace(tags=tags))
    if fault and split != "test":
      raise ValueError(f"{fault}.")
    if fault:
      logging.warning(f"{fault}, so the predictions are not scored.")
      labelled = [sentence._replace(tags=None) for sentence in labelled]
    sentences = labelled
    context = bool(self.config.document_context)
    windows = windows_lib.make_windows(
      sentences, self.tokenizer, self.max_seq_length, context
    )
    for window in windows[: base.NUM_LOGGED]:
      tokens = self.tokenizer.convert_ids_to_tokens(window.input_ids)
      for position, tag in zip(window.first_pieces, window.tags or ()):
        tokens[position] += f"/{tag}"
      logging.info("%s", " ".join(tokens))
    return Tagged(sentences, windows)

  def num_inputs(self, data: Tagged) -> int:
    """Returns the number of windows."""
    return len(data.windows)

  def encode(
    self, split: str, data: Tagged
  ) -> Iterator[tuple[Sequence[bytes], bool]]:
    """Yields a record for each window; without tags, label_ids are 0."""
    length = self.max_seq_length
    ids = {label: i for i, label in enumerate(self.labels)}
    for window in data.windows:
      label_ids, label_mask = [0] * length, [0] * length
      tags = window.tags or [self.labels[0]] * len(window.first_pieces)
      for position, tag in zip(window.first_pieces, tags):
        label_ids[position], label_mask[position] = ids[tag], 1
      labels = {"label_ids": label_ids, "label_mask": label_mask}
      record = self.record([window.model_input], labels)
      yield [record], window.part == 1  # Counts a long sentence once.

  def spec(self, split: str) -> input_pipeline.Spec:
    """Returns the features of a record."""
    ids = input_pipeline.int_feature(self.max_seq_length)
    inputs = input_pipeline.inputs_spec(self.max_seq_length)
    return inputs | dict.fromkeys(self.label_features, ids)

  def objective(self) -> objective.Objective:
    """Returns the loss and the accuracy of the labelled positions."""
    return objective.Objective(
      losses.token_loss,
      losses.token_weights,
      losses.token_metrics,
      weigh=objective.class_weighting(self.class_weights, "label_mask"),
    )

  def rows(self, outputs: np.ndarray) -> base.Rows:
    """Returns the id of the most probable label of each position."""
    return outputs.argmax(axis=-1)

  def scores(self, data: Tagged, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns precision, recall and F1 of the entities."""
    tags = self._tags(data, rows)
    return dict(metrics.scores(data.sentences, tags, self.labels))

  def write_evaluation(
    self, output_dir: str, data: Tagged, rows: Sequence[np.ndarray]
  ) -> None:
    """Writes the words, tags and predicted tags to eval_predictions.txt."""
    path = os.path.join(output_dir, "eval_predictions.txt")
    metrics.write_predictions(path, data.sentences, self._tags(data, rows))

  def write_predictions(
    self, output_dir: str, data: Tagged, rows: base.Rows
  ) -> base.Results:
    """Writes test_predictions.txt and, if tags are known, test_results.txt.

    If tags are not known, removes the test_results.txt of earlier predictions.
    """
    tags = self._tags(data, rows)
    path = os.path.join(output_dir, "test_predictions.txt")
    metrics.write_predictions(path, data.sentences, tags)
    results_file = os.path.join(output_dir, "test_results.txt")
    if data.sentences[0].tags is None:
      paths.remove(results_file)  # The scores of earlier predictions.
      return {}
    scores = metrics.scores(data.sentences, tags, self.labels)
    gold = [tag for s in data.sentences for tag in s.tags or ()]
    found = [tag for row in tags for tag in row]
    scores["accuracy"] = float(np.mean([a == b for a, b in zip(gold, found)]))
    results.write_results(results_file, scores, first=self.first_results)
    return {f"test_{name}": value for name, value in scores.items()}

  def run_info(self) -> dict[str, Any]:
    """Returns the labels and the settings of the inputs for run.json."""
    context = self.config.document_context
    return super().run_info() | {"document_context": context}

  def inputs_and_answer(self, example: Sentence) -> tuple[dict[str, Any], Any]:
    """Returns the words with spaces between them, and their tags.

    Served models split texts at spaces, so words cannot contain spaces.
    """
    if any(len(word.split()) != 1 for word in example.words):
      return {}, example.tags
    return {"text": " ".join(example.words)}, example.tags

  def label_ids(self, data: Tagged, rows: base.Rows) -> Iterator[int]:
    """Yields the predicted label id of each word; rows are int [F]."""
    for window, row in zip(data.windows, rows):
      yield from row[list(window.first_pieces)]

  @property
  def labels(self) -> tuple[str, ...]:
    """The names of the labels, which must be known."""
    assert self.label_spec is not None
    return self.label_spec.labels

  def _tags(self, data: Tagged, rows: base.Rows) -> list[list[str]]:
    tags = (self.labels[i] for i in self.label_ids(data, rows))
    return [[next(tags) for _ in s.words] for s in data.sentences]
