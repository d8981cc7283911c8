"""Multiple choice, such as SWAG (Devlin et al. 2019, 4.4)."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.data import input_pipeline
from bert_tf.tasks import base, fine_tuning, prediction
from bert_tf.tasks.swag import config as config_lib
from bert_tf.tasks.swag import examples
from bert_tf.tasks.swag.examples import ChoiceExample
from bert_tf.training import objective, results


def run(config: config_lib.SwagConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run."""
  return fine_tuning.run(config, SwagTask)


class SwagTask(base.Task[ChoiceExample]):
  """Chooses one of several continuations of a text."""

  config: config_lib.SwagConfig
  model = heads.MultipleChoiceModel
  record_settings = ()

  def __init__(self, setup: base.Setup[config_lib.SwagConfig]) -> None:
    super().__init__(setup)
    self.layout = examples.file_layout(self.config)
    self.files = {
      split: base.SplitFile(
        os.path.join(self.config.data_dir, name), "data_dir"
      )
      for split, name in self.layout.files.items()
    }
    # Number of choices of an example by split; `write_records` sets it.
    self.num_choices: dict[str, int] = {}

  def read(self, split: str, path: str) -> list[ChoiceExample]:
    """Reads the examples of a split."""
    is_test = split == "test"
    # Predictions must match the test file row by row.
    skip = None if is_test else self.config.skip_bad_rows
    return examples.read_examples(path, self.layout, not is_test, skip)

  def write_records(
    self, split: str, path: str, data: Sequence[ChoiceExample]
  ) -> input_pipeline.RecordFiles:
    """Also stores the number of choices, which is the same for all."""
    self.num_choices[split] = len(data[0].choices)
    return super().write_records(split, path, data)

  def label_values(
    self, example: ChoiceExample, prepared: prediction.Prepared
  ) -> dict[str, list[int]]:
    """Returns the index of the right choice, 0 if it is not known."""
    return {"label_ids": [example.label or 0], "is_real_example": [1]}

  def spec(self, split: str) -> input_pipeline.Spec:
    """Returns the features of a record of C choices."""
    return {
      **input_pipeline.inputs_spec(
        self.num_choices[split], self.max_seq_length
      ),
      "label_ids": input_pipeline.int_feature(1),
      "is_real_example": input_pipeline.int_feature(1),
    }

  def objective(self) -> objective.Objective:
    """Returns those of a classifier, whose classes are the choices."""
    return objective.of_classifier("classification")

  def write_predictions(
    self, output_dir: str, data: Sequence[ChoiceExample], rows: base.Rows
  ) -> base.Results:
    """Writes test_results.tsv and predictions.jsonl."""
    scores = np.reshape([*rows], (len(data), -1))  # [B, C]
    probabilities = prediction.probabilities(scores)
    label_type = self.layout.label_type
    objects = []
    for example, row in zip(data, probabilities):
      chosen = int(row.argmax())
      label = examples.label_names(example.choices, label_type)[chosen]
      objects.append(
        {
          "id": example.guid,
          "text": example.context,
          "text_b": example.continuations()[chosen],
          "label": int(label) if label_type.startswith("number") else label,
          "probabilities": prediction.digits(row),
        }
      )
    results.write_probabilities(output_dir, probabilities, objects)
    return {}

  def inputs_and_answer(
    self, example: ChoiceExample
  ) -> tuple[dict[str, Any], Any]:
    """Returns the context, its continuations and the index of the right one."""
    choices = example.continuations()
    return {"context": example.context, "choices": choices}, example.label
