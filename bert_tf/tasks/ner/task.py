"""Named entity recognition: a tag for every word (Devlin et al. 2019, 5.3)."""

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import heads, losses
from bert_tf.data import input_pipeline
from bert_tf.files import paths
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, fine_tuning, prediction
from bert_tf.tasks.ner import config as config_lib
from bert_tf.tasks.ner import examples, metrics
from bert_tf.tasks.ner import windows as windows_lib
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.training import objective, results

Sentences = Sequence[Sentence]


def run(config: config_lib.NerConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run.

  The scores of a test file with tags are returned as test_*.
  """
  return fine_tuning.run(config, NerTask)


class NerTask(base.Task[Sentence]):
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
    """Reads a file; tags become the model's labels, if these are known."""
    spec = self.label_spec
    sentences = examples.read_sentences(
      path,
      self.config.word_column,
      self.config.tag_column,
      any_tags=spec is not None,  # They are compared below.
    )
    if sentences[0].tags is None:
      if split != "test":
        raise ValueError(
          f"{path} has no column of tags next to the words. Only the test file "
          "may lack tags."
        )
    elif split != "train":
      metrics.import_seqeval()  # Fails here, not after hours of training.
    if spec is None or sentences[0].tags is None:
      return sentences
    fault, labelled = "", []
    for sentence in sentences:
      tags = sentence.tags or ()
      labels = examples.to_labels(tags, spec.labels)
      if None in labels and not fault:
        place = labels.index(None)
        unknown = spec.unknown_label(tags[place])
        fault = f"{path}:{sentence.line + place}: {unknown} (`tag_column`)"
      labelled.append(sentence._replace(tags=tuple(map(str, labels))))
    if fault and split != "test":
      raise ValueError(f"{fault}.")
    if fault:
      logging.warning(f"{fault}, so the predictions are not scored.")
      return [sentence._replace(tags=None) for sentence in sentences]
    return labelled

  def set_labels(self, train: Sentences, source: str) -> None:
    """Sets the labels to O, and B- and I- of each type in the sentences."""
    labels = examples.infer_labels(train)
    if len(labels) < 2:
      raise ValueError(f"{source} has no entities: every tag is O.")
    self.label_spec = run_info.LabelSpec("ner", run_info.WORDS, labels)

  def num_inputs(self, data: Sentences) -> int:
    """Returns the number of windows."""
    return sum(len(windows.inputs) for windows in self._windows(data))

  def _windows(self, data: Sentences) -> Iterator[prediction.Prepared]:
    return windows_lib.make_windows(
      data,
      self.tokenizer,
      self.max_seq_length,
      bool(self.config.document_context),
    )

  def encode(self, split: str, data: Sentences) -> base.Encoded:
    """Yields a record for each window; without tags, label_ids are 0."""
    length = self.max_seq_length
    ids = {label: i for i, label in enumerate(self.labels)}
    for index, (sentence, windows) in enumerate(zip(data, self._windows(data))):
      encoded, tags = [], iter(sentence.tags or ())
      for model_input, positions in zip(windows.inputs, windows.state):
        tagged = dict(zip(positions, tags))
        label_ids, label_mask = [0] * length, [0] * length
        for position in positions:
          label_mask[position] = 1
        for position, tag in tagged.items():
          label_ids[position] = ids[tag]
        if index < base.NUM_LOGGED:
          pieces = self.tokenizer.convert_ids_to_tokens(model_input.input_ids)
          for position, tag in tagged.items():
            pieces[position] += f"/{tag}"
          logging.info("%s", " ".join(pieces))
        labels = {"label_ids": label_ids, "label_mask": label_mask}
        encoded.append(self.record([model_input], labels))
      yield encoded, windows.is_cut

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

  def rows(self, outputs: np.ndarray, features: losses.Features) -> base.Rows:
    """Returns the ids of the most probable labels of each window's words."""
    masks = np.asarray(features["label_mask"]) > 0  # [B, F]
    return (ids[mask] for ids, mask in zip(outputs.argmax(axis=-1), masks))

  def scores(self, data: Sentences, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns precision, recall and F1 of the entities."""
    tags = self._tags(data, rows)
    return dict(metrics.scores(data, tags, self.labels))

  def write_evaluation(
    self, output_dir: str, data: Sentences, rows: Sequence[np.ndarray]
  ) -> None:
    """Writes the words, tags and predicted tags to eval_predictions.txt."""
    path = os.path.join(output_dir, "eval_predictions.txt")
    metrics.write_predictions(path, data, self._tags(data, rows))

  def write_predictions(
    self, output_dir: str, data: Sentences, rows: base.Rows
  ) -> base.Results:
    """Writes test_predictions.txt and, if tags are known, test_results.txt.

    If tags are not known, removes the test_results.txt of earlier predictions.
    """
    tags = self._tags(data, rows)
    path = os.path.join(output_dir, "test_predictions.txt")
    metrics.write_predictions(path, data, tags)
    results_file = os.path.join(output_dir, "test_results.txt")
    if data[0].tags is None:
      paths.remove(results_file)  # The scores of earlier predictions.
      return {}
    scores = metrics.scores(data, tags, self.labels)
    gold = [tag for s in data for tag in s.tags or ()]
    found = [tag for row in tags for tag in row]
    scores["accuracy"] = float(np.mean([a == b for a, b in zip(gold, found)]))
    results.write_results(results_file, scores, first=self.first_results)
    return {f"test_{name}": value for name, value in scores.items()}

  def inputs_and_answer(self, example: Sentence) -> tuple[dict[str, Any], Any]:
    """Returns the words with spaces between them, and their tags.

    Served models split texts at spaces, so words cannot contain spaces.
    """
    if any(len(word.split()) != 1 for word in example.words):
      return {}, example.tags
    return {"text": " ".join(example.words)}, example.tags

  @property
  def labels(self) -> tuple[str, ...]:
    """The names of the labels, which must be known."""
    assert self.label_spec is not None
    return self.label_spec.labels

  def _tags(self, data: Sentences, rows: base.Rows) -> list[list[str]]:
    tags = (self.labels[i] for i in itertools.chain.from_iterable(rows))
    return [[next(tags) for _ in s.words] for s in data]
