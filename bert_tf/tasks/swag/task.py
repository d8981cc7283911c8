"""Multiple choice, such as SWAG (Devlin et al. 2019, 4.4)."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks import config as config_lib
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.tasks.swag import layouts
from bert_tf.training import results


class SwagTask(base.Task[config_lib.TaskSettings]):
  """Chooses one of several continuations of a text.

  `choices` include the start that all of them have in common, as in SWAG. An
  answer has the index of the `choice` and the `probabilities` of all.
  """

  name = "swag"
  fields = ("context", "choices")
  num_required = 2
  loss_mask = "is_real_example"
  reuses_records = True

  @functools.cached_property
  def layout(self) -> layouts.ChoiceLayout:
    """The files and their columns."""
    return layouts.file_layout(self.config)

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    folder = self.config.data_dir
    return {
      split: base.SplitFile(os.path.join(folder, name), "data_dir")
      for split, name in self.layout.files.items()
    }

  def read(self, split: str) -> Sequence[Row]:
    """Reads the rows of a split."""
    is_test = split == "test"
    # Predictions must match the test file row by row.
    skip = None if is_test else self.config.skip_bad_rows
    path = self.files[split].path or ""
    return layouts.read_rows(path, self.layout, not is_test, skip)

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the index of the right choice, in the form of label_type."""
    choices = row["choices"]
    if len(choices) < 2:
      raise ValueError(f"there is only one choice: {choices}.")
    index = layouts.label_id(label, choices, self.layout.label_type)
    return {**row, "label": index}

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the sequences of each row, one for each choice."""
    for row in rows:
      context = self.tokenizer.tokenize_to_ids(row["context"])
      choices = [*map(self.tokenizer.tokenize_to_ids, row["choices"])]
      yield base.Inputs(
        [self.pack(context, choice) for choice in choices],
        is_one_record=True,
        is_cut=any(self.is_cut(context, choice) for choice in choices),
      )

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the index of the right choice, 0 if it is not known."""
    yield {
      "label_ids": np.array([row.get("label") or 0]),
      "is_real_example": np.array([1]),
    }

  def compute_losses(
    self, outputs: Tensor, features: losses.Features
  ) -> tuple[Tensor, Tensor | None]:
    """Returns the loss of each row, and whether its choice is right."""
    target = features["label_ids"], "classification"  # Of choices.
    return (
      losses.per_example_loss(outputs, *target),
      losses.per_example_hits(outputs, *target),
    )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the most probable choice."""
    logits = np.concatenate([output["logits"] for output in outputs])  # [C]
    [row] = base.probabilities(logits[None])
    return {"choice": int(row.argmax()), "probabilities": base.digits(row)}

  def write_predictions(
    self,
    output_dir: str,
    rows: Sequence[Row],
    answers: Iterable[Answer],
  ) -> Results:
    """Writes test_results.tsv and predictions.jsonl."""
    objects = []
    for row, answer in zip(rows, answers):
      chosen = answer["choice"]
      objects.append(
        {
          "id": row["id"],
          "text": row["context"],
          "text_b": row["choices"][chosen],
          "label": row["choice_labels"][chosen],
          "probabilities": answer["probabilities"],
        }
      )
    results.write_probabilities(output_dir, objects)
    return {}
