"""Multiple choice, such as SWAG (Devlin et al. 2019, 4.4)."""

import collections
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.tasks import base, fine_tuning, splits
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.swag import config as config_lib
from bert_tf.tasks.swag import examples, records
from bert_tf.tasks.swag.examples import ChoiceExample
from bert_tf.training import objective, results

# Names of an evaluation's results, except the step. The first is the default
# best_metric.
RESULTS = ("eval_accuracy", "eval_loss", "loss")


def run(config: config_lib.SwagConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run."""
  return fine_tuning.run(config, make_task)


def make_task(
  setup: base.Setup[config_lib.SwagConfig],
) -> "SwagTask":
  """Returns the task of a run."""
  config = setup.config
  assert config.max_seq_length is not None
  file_format, layout = config.task_name.lower(), examples.SWAG
  if file_format in config_lib.FILE_FORMATS:
    layout = examples.own_files(
      file_format,
      config.context_column,
      config.question_column,
      config.choice_columns or (),
      config.label_column,
      config.label_type,
    )
  elif file_format != "swag":
    raise ValueError(
      f"task_name {config.task_name!r} is not known; use swag, "
      f"{', '.join(config_lib.FILE_FORMATS)}."
    )
  return SwagTask(
    layout,
    config.data_dir,
    setup.bert_config,
    setup.tokenizer,
    config.max_seq_length,
    config.skip_bad_rows,
  )


@dataclasses.dataclass(eq=False)
class SwagTask(base.Task[ChoiceExample, Sequence[ChoiceExample]]):
  """Chooses one of several continuations of a text."""

  layout: examples.ChoiceLayout
  data_dir: str
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  max_seq_length: int  # Word pieces of context and choice.
  skip_bad_rows: bool  # Whether to skip faulty rows of train and dev files.
  # Number of choices of an example by split; `prepare` sets it.
  num_choices: dict[str, int] = dataclasses.field(default_factory=dict)

  model = heads.MultipleChoiceModel

  def file(self, split: str) -> base.SplitFile:
    """Returns the file of a split, below data_dir."""
    path = os.path.join(self.data_dir, getattr(self.layout, split))
    return base.SplitFile(path, "data_dir")

  def read(self, split: str, path: str) -> list[ChoiceExample]:
    """Reads the examples of a split."""
    is_test = split == "test"
    # Predictions must match the test file row by row.
    skip = self.skip_bad_rows and not is_test
    folder, name = os.path.split(path)
    return examples.read_examples(folder, name, self.layout, not is_test, skip)

  def prepare(
    self, split: str, examples: Sequence[ChoiceExample]
  ) -> Sequence[ChoiceExample]:
    """Stores the number of choices, the same for all; returns the examples."""
    self.num_choices[split] = len(examples[0].choices)
    return examples

  def num_inputs(self, data: Sequence[ChoiceExample]) -> int:
    """Returns the number of examples."""
    return len(data)

  def write_records(
    self, split: str, path: str, data: Sequence[ChoiceExample]
  ) -> input_pipeline.RecordFiles:
    """Writes a record for each example, unless the records exist already."""
    return records.write_records(
      path, data, self.tokenizer, self.max_seq_length
    )

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns the builder of batches for a split."""
    spec = records.spec(self.max_seq_length, self.num_choices[split])
    return batches_lib.dynamic_padding(
      spec, self.bert_config.vocab_size, self.max_seq_length
    )

  def objective(self) -> objective.Objective:
    """Returns those of a classifier, whose classes are the choices."""
    return objective.of_classifier("classification")

  def result_names(self) -> tuple[str, ...]:
    """Returns the names of results. The first is the default best_metric."""
    return RESULTS

  def write_predictions(
    self, output_dir: str, data: Sequence[ChoiceExample], rows: base.Rows
  ) -> base.Results:
    """Writes test_results.tsv and predictions.jsonl."""
    scores = np.stack(list(rows))
    probabilities = np.asarray(losses.probabilities(scores, "classification"))
    write_predictions(output_dir, data, probabilities, self.layout.label_type)
    return {}

  def describe_labels(self, examples: Sequence[ChoiceExample]) -> str:
    """Returns how often each choice, by its index, is the right one."""
    counts = collections.Counter(e.label for e in examples)
    if set(counts) == {None}:
      return "no labels"
    named = {str(i): counts[i] for i in range(len(examples[0].choices))}
    return f"the right choice: {splits.describe_counts(named)}"

  def describe_cut(self) -> str:
    """Returns the log's phrase on long texts."""
    return f"with a choice cut to max_seq_length {self.max_seq_length}"

  def inputs_and_answer(
    self, example: ChoiceExample
  ) -> tuple[dict[str, Any], Any]:
    """Returns the context, its continuations and the index of the right one."""
    choices = example.continuations()
    return {"context": example.context, "choices": choices}, example.label


def write_predictions(
  output_dir: str,
  data: Sequence[ChoiceExample],
  probabilities: np.ndarray,
  label_type: str,
) -> None:
  """Writes test_results.tsv and predictions.jsonl.

  Args:
    output_dir: folder of the files.
    data: the examples, B.
    probabilities: float32 [B, C].
    label_type: one of config.LABEL_TYPES.
  """
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
        # The digits of a float32.
        "probabilities": [float(str(p)) for p in row],
      }
    )
  results.write_probabilities(output_dir, probabilities, objects)
