"""Multiple choice, such as SWAG (Devlin et al. 2019, 4.4)."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.files import tables
from bert_tf.files.tables import BadRowError
from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.config import TaskSettings
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.tasks.swag.config import SwagConfig
from bert_tf.training import results

_PROBLEM_TYPE = "classification"  # The classes are the choices.

# Zellers et al. 2018. Sentence A is "the given sentence", and sentence B "a
# possible continuation" (Devlin et al. 2019, 4.4). The endings complete a
# second sentence, whose beginning therefore belongs to B.
_SWAG_COLUMNS: dict[str, Any] = {
  "context_column": "sent1",
  "question_column": "sent2",
  "choice_columns": ("ending0", "ending1", "ending2", "ending3"),
  "label_column": "label",
}


class SwagTask(base.Task[TaskSettings]):
  """Chooses one of several continuations of a text.

  `choices` include the start that all of them have in common, as in SWAG. An
  answer has the index of the `choice` and the `probabilities` of all.
  """

  name = "swag"
  fields = ("context", "choices")
  num_required = 2
  reuses_records = True

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    folder, names = self.config.data_dir, {"train": "train", "test": "test"}
    suffix = self.config.task_name
    names["dev"] = "val" if suffix == "swag" else "dev"
    suffix = "csv" if suffix == "swag" else suffix
    return {
      split: base.SplitFile(
        os.path.join(folder, f"{name}.{suffix}"), "data_dir"
      )
      for split, name in names.items()
    }

  def read(self, split: str) -> Sequence[Row]:
    """Reads the rows of a split."""
    return read_rows(self.files[split].path or "", self.config, split != "test")

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the index of the right choice."""
    if len(row["choices"]) < 2:
      raise ValueError(f"there is only one choice: {row['choices']}.")
    return {**row, "label": read_label(label, len(row["choices"]))}

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

  def weights(
    self, features: losses.Features, training: bool
  ) -> dict[str, Tensor]:
    """Returns the number of rows."""
    return losses.classifier_weights(features)

  def compute_sums(
    self, outputs: Tensor, features: losses.Features, training: bool
  ) -> tuple[losses.Sums, losses.Sums]:
    """Returns the loss and the metrics of a classifier."""
    return (
      losses.classifier_loss(outputs, features, _PROBLEM_TYPE),
      losses.classifier_metrics(outputs, features, _PROBLEM_TYPE),
    )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the most probable choice."""
    logits = np.concatenate([output["logits"] for output in outputs])  # [C]
    [row] = base.probabilities(logits[None])
    return {"choice": int(row.argmax()), "probabilities": base.digits(row)}

  def write_predictions(
    self, output_dir: str, rows: Sequence[Row], answers: Iterable[Answer]
  ) -> Results:
    """Writes test_results.tsv and predictions.jsonl."""
    objects = [
      {
        "id": row["id"],
        "text": row["context"],
        "text_b": row["choices"][answer["choice"]],
        "label": answer["choice"],
        "probabilities": answer["probabilities"],
      }
      for row, answer in zip(rows, answers)
    ]
    results.write_probabilities(output_dir, objects)
    return {}


def read_rows(path: str, config: SwagConfig, has_labels: bool) -> list[Row]:
  """Reads one file of a task.

  A row has `id`, its file and line; `context`; `choices`, each with the
  question before it; and the index of the right one as `label`, if the file has
  labels.

  Raises ValueError with file and line for a faulty row, or if there is none.
  """
  file_format, is_swag = config.task_name, config.task_name == "swag"
  if is_swag:
    file_format = "csv"
    config = dataclasses.replace(config, **_SWAG_COLUMNS)
  names = (config.question_column, config.context_column, config.label_column)
  columns: list[Any] = tables.parse_columns(
    file_format, (*names, *(config.choice_columns or ("",)))
  )
  question_column, context_column, label_column, *choice_columns = columns
  if None in columns[1:]:
    raise ValueError(
      "Name the columns of the files: `context_column`, `label_column` and, "
      "separated by commas, the `choice_columns`, one for each choice."
    )
  settings = dict.fromkeys(choice_columns, "choice_columns")
  settings |= {context_column: "context_column", label_column: "label_column"}
  needed = [context_column, *choice_columns]
  if question_column is not None:
    settings[question_column] = "question_column"
    needed.append(question_column)
  if has_labels:
    needed.append(label_column)

  def convert(line: int, cells: tables.Row) -> Row:
    texts: Any = cells
    names = choice_columns
    if len(names) == 1:
      texts = tables.get_cell(cells, names[0])
      if not isinstance(texts, list) or len(texts) < 2:
        raise BadRowError(
          f"column {names[0]} must list two texts or more, not {texts!r}"
        )
      texts = {f"{names[0]}[{i}]": text for i, text in enumerate(texts)}
      names = [*texts]
    choices = [tables.get_text(texts, name, not has_labels) for name in names]
    question = ""
    if question_column is not None:
      question = tables.get_text(cells, question_column, may_be_empty=True)
    row: Row = {
      "id": f"{prefix}-{line - 1}",
      "context": tables.get_text(cells, context_column, not has_labels),
      "choices": [f"{question} {choice}".strip() for choice in choices],
    }
    if has_labels:
      label = tables.get_cell(cells, label_column)
      row["label"] = read_label(label, len(choices))
    return row

  prefix = os.path.splitext(os.path.basename(path))[0]
  table = tables.Table(path, file_format, needed, {} if is_swag else settings)
  rows = tables.read(table, convert)
  if not rows:
    raise ValueError(f"{path} holds no examples.")
  num_choices = len(rows[0]["choices"])
  for row in rows:
    if len(row["choices"]) != num_choices:
      raise ValueError(
        f"{path}: {row['id']} has {len(row['choices'])} choices, but the first "
        f"example has {num_choices}."
      )
  return rows


def read_label(label: Any, num_choices: int) -> int:
  """Returns the index that a label is; raises BadRowError for another one."""
  names = [str(index) for index in range(num_choices)]
  if (name := str(label).strip()) not in names:
    raise BadRowError(f"label {label!r} is none of {', '.join(names)}")
  return int(name)
