"""The labels of a model, and label_map.json, which stores them."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.files import atomic, errors, json_files, json_text, paths
from bert_tf.formats import hugging_face
from bert_tf.model_folder import run_info

FILE = run_info.LABEL_MAP_FILE


@dataclasses.dataclass(frozen=True)
class LabelOrigin:
  """The origin of a run's labels, for its log and its errors."""

  name: str  # A file, a folder, or "the task".
  # Advice about data with another label.
  remedy: str = "correct the label"

  def unknown_label(self, label: object, labels: Sequence[str]) -> str:
    """Returns the error message for data with a label that is not known."""
    return (
      f"label {label!r} is not one of {errors.listed(labels)}, the labels of "
      f"{self.name}; {self.remedy}"
    )


OF_TASK = LabelOrigin("the task")


def of_data(source: str) -> LabelOrigin:
  """Returns the origin of labels that the training data define."""
  return LabelOrigin(
    source, "correct it, or add training examples with this label"
  )


@dataclasses.dataclass(frozen=True)
class LabelSpec:
  """The labels of a model that classifies texts or words."""

  name: str  # The task's, as its authors write it.
  problem_type: str  # One of run_info.PROBLEM_TYPES, or its WORDS.
  labels: tuple[str, ...]  # In the order of their ids; () in a regression.
  # As RunInfo.labels_are_text; makes no other label.
  are_text: bool = dataclasses.field(default=True, compare=False)
  # Makes no other label either.
  origin: LabelOrigin = dataclasses.field(default=OF_TASK, compare=False)

  @property
  def num_outputs(self) -> int:
    """C, the outputs of the model: one for each label, or one number."""
    return 1 if self.problem_type == "regression" else len(self.labels)

  def run_info(self) -> dict[str, Any]:
    """Returns the fields of run.json that hold this."""
    return {
      "task_name": self.name,
      "problem_type": self.problem_type,
      "labels": self.labels,
      "labels_are_text": None if self.are_text else False,
    }


def to_run(spec: LabelSpec) -> run_info.RunInfo:
  """Returns what run.json would say of a model with these labels."""
  if spec.problem_type == run_info.WORDS:
    return run_info.RunInfo(task="ner", task_name=spec.name, labels=spec.labels)
  return run_info.RunInfo(task="classification", **spec.run_info())


def of_run(run: run_info.RunInfo | None) -> LabelSpec | None:
  """Returns the labels that are known of a run, None without."""
  if run is None or run.labels is None:
    return None
  if run.task == "ner":
    return LabelSpec(run.task_name or "ner", run_info.WORDS, run.labels)
  kind = run.problem_type or "classification"
  name = run.task_name or "own data"
  return LabelSpec(name, kind, run.labels, run.labels_are_text is not False)


def with_hugging_face_labels(
  run: run_info.RunInfo, config: Mapping[str, Any], num_labels: int
) -> run_info.RunInfo:
  """Returns a run with the labels and problem type of a config.json, if known.

  Args:
    run: of the model.
    config: of its config.json.
    num_labels: outputs of its classifier; 0 without one.

  Raises:
    ValueError: if there are not num_labels of them.
  """
  if not num_labels:
    return run
  names = config.get("id2label")
  ids = [str(i) for i in range(num_labels)]
  if names is not None and sorted(names) != sorted(ids):
    raise ValueError(
      f"id2label of config.json has the ids {', '.join(sorted(names))}, but "
      f"the classifier has {num_labels} labels."
    )
  labels = hugging_face.numbered_labels(num_labels)
  if names is not None:
    labels = tuple(names[i] for i in ids)
  if run.task == "ner":
    return dataclasses.replace(run, labels=labels)
  there = {value: key for key, value in hugging_face.PROBLEM_TYPES.items()}
  problem_type = there.get(config.get("problem_type") or "")
  # transformers leaves id2label out if there are two labels without names.
  if problem_type is None and names is None and num_labels != 2:
    return run
  if problem_type is None:
    # As transformers decides it.
    problem_type = "regression" if num_labels == 1 else "classification"
  if problem_type == "regression":
    labels = ()
  return dataclasses.replace(run, problem_type=problem_type, labels=labels)


def read(folder: str) -> LabelSpec | None:
  """Returns the labels in a folder's label_map.json, None without one.

  Raises:
    ValueError: if the file is not a label map.
  """
  path = os.path.join(folder, FILE)
  if not paths.exists(path):
    return None
  types = {"task_name": str, "problem_type": str, "labels": list[str]}
  saved = json_files.read_object(path, types, required=tuple(types))
  values = {name: saved[name] for name in ("task_name", "labels")}
  if saved["problem_type"] == run_info.WORDS:
    values["task"] = "ner"
  else:
    values.update(task="classification", problem_type=saved["problem_type"])
  try:
    return of_run(run_info.from_json(values))
  except ValueError as error:
    raise ValueError(
      f"{path} is no label map: {error} Remove it or choose another "
      "`output_dir`."
    ) from error


def check(output_dir: str, saved: LabelSpec | None, spec: LabelSpec) -> None:
  """Raises ValueError if the labels saved in a folder are others."""
  if saved is not None and saved != spec:
    there, here = (json.dumps(_as_json(one)) for one in (saved, spec))
    raise ValueError(
      f"{output_dir} holds another task's run: its labels are {there}, this "
      f"run's {here}; choose another `output_dir`. Its checkpoint can be the "
      "`init_checkpoint`."
    )


def write(folder: str, spec: LabelSpec) -> None:
  """Writes the label map."""
  text = json_text.encode(_as_json(spec), indent=2)
  atomic.write_lines(os.path.join(folder, FILE), [text])


def _as_json(spec: LabelSpec) -> dict[str, Any]:
  """Returns the fields of a label map; a label's id is its index."""
  return {
    "task_name": spec.name,
    "problem_type": spec.problem_type,
    "labels": list(spec.labels),
  }
