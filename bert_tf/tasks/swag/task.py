"""Multiple choice, such as SWAG (Devlin et al. 2019, 4.4)."""

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
from bert_tf.training import results


class SwagTask(base.Task[TaskSettings]):
  """Chooses one of several continuations of a text.

  `choices` include the start that all of them have in common, as in SWAG. An
  answer has the index of the `choice` and the `probabilities` of all.
  """

  name = "swag"
  fields = ("context", "choices")
  num_required = 2
  loss_mask = "is_real_example"

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    files = {}
    for split, name in (("train", "train"), ("dev", "val"), ("test", "test")):
      path = os.path.join(self.config.data_dir, f"{name}.csv")
      files[split] = base.SplitFile(path, "data_dir")
    return files

  def read(self, split: str) -> Sequence[Row]:
    """Reads a file with SWAG's columns: sent1, sent2, ending0 and so on, label.

    A row has `id`, its file and line; the `context`; the `choices`; and the
    index of the right one as `label`, unless it is a test file. A file may have
    any number of endings, and sent2 may be empty or missing.
    """
    path, has_labels = str(self.files[split].path), split != "test"
    prefix = os.path.splitext(os.path.basename(path))[0]

    def convert(line: int, cells: Any) -> Row:
      # Zellers et al. 2018. Sentence A is "the given sentence", and sentence B
      # "a possible continuation" (Devlin et al. 2019, 4.4). The endings
      # complete a second sentence, whose beginning therefore belongs to B.
      context = tables.get_text(cells, "sent1", may_be_empty=not has_labels)
      choices: list[str] = []
      while (ending := f"ending{len(choices)}") in cells:
        text = tables.get_text(cells, ending, may_be_empty=not has_labels)
        choices.append(f"{cells.get('sent2', '')} {text}".strip())
      row: Row = {"id": f"{prefix}-{line - 1}", "context": context}
      row["choices"] = choices
      if has_labels:
        row["label"] = read_label(cells["label"], len(choices))
      return row

    needed = ["sent1", "ending0", "ending1"] + ["label"] * has_labels
    rows = list(tables.read(tables.Table(path, "csv", needed), convert))
    if not rows:
      raise ValueError(f"{path} holds no examples.")
    return rows

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

  def compute_losses(
    self, outputs: Tensor, features: losses.Features
  ) -> tuple[Tensor, Tensor]:
    """Returns the loss of each question, and whether its choice is right."""
    label_ids = features["label_ids"][:, 0]
    return (
      losses.cross_entropy(outputs, label_ids),
      losses.hits(outputs, label_ids),
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


def read_label(label: Any, num_choices: int) -> int:
  """Returns the index that a label is; raises BadRowError for another one."""
  names = [str(index) for index in range(num_choices)]
  if (name := str(label).strip()) not in names:
    raise BadRowError(f"label {label!r} is none of {', '.join(names)}")
  return int(name)
