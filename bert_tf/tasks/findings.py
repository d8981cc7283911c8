"""What run.json keeps of a run's data, for whoever serves it."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.formats import tables
from bert_tf.tasks import base

_MAX_CHARACTERS = 1000  # Of the texts of an example.
_MAX_READ = 300  # Examples that are looked at.


def of_data(
  task: base.Task[base.Example, Any],
  examples: Mapping[str, Sequence[base.Example]],
  num_kept: int,
) -> dict[str, Any]:
  """Returns fields of run_info.RunInfo: counts, and a few dev examples.

  Args:
    task: of the run.
    examples: by split; a split that was not read has no fields.
    num_kept: examples that are kept, at most.
  """
  found: dict[str, Any] = {}
  for split in ("train", "dev"):
    if split in examples:
      found[f"num_{split}_examples"] = len(examples[split])
  if "dev" in examples:
    kept = _chosen(task, examples["dev"], num_kept)
    found["examples"] = tuple(kept) or None
  elif not num_kept:
    found["examples"] = None
  return found


def _chosen(
  task: base.Task[base.Example, Any],
  examples: Sequence[base.Example],
  count: int,
) -> list[dict[str, Any]]:
  """Returns short examples, first of all one for each answer."""
  first: list[dict[str, Any]] = []
  others: list[dict[str, Any]] = []
  seen: set[str] = set()
  for example in itertools.islice(examples, _MAX_READ):
    inputs, answer = task.inputs_and_answer(example)
    num_characters = sum(len("".join(text)) for text in inputs.values())
    if not inputs or num_characters > _MAX_CHARACTERS:
      continue
    texts = json.dumps((inputs, answer), ensure_ascii=False)
    if not tables.is_unicode(texts):  # No served model takes these.
      continue
    key = json.dumps(answer)
    (others if key in seen else first).append(
      {"inputs": inputs, "answer": answer}
    )
    seen.add(key)
  return [*first, *others][:count]
