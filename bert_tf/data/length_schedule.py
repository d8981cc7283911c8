"""Pre-training on short inputs first and long inputs last.

BERT trains 90% of its steps at length 128 and the rest at 512, to learn the
remaining position embeddings (Devlin et al. 2019, appendix A.2).
"""

import dataclasses
import itertools
from collections.abc import Sequence

import tensorflow as tf

from bert_tf.data import input_pipeline, pretraining_records


@dataclasses.dataclass(frozen=True)
class Phase:
  """Consecutive steps on records of one length."""

  records: pretraining_records.PretrainingRecords
  num_steps: int


def parse(schedule: str, num_train_steps: int) -> dict[int, int]:
  """Returns the steps of each length, in the schedule's order.

  A schedule has lengths with their fractions of the steps, which sum to 1, such
  as 128:0.9,512:0.1. Raises ValueError for others, or a length without a step.
  """
  try:
    pairs = [part.split(":") for part in schedule.split(",")]
    shares = {int(length): float(share) for length, share in pairs}
  except ValueError as error:
    raise ValueError(
      f"schedule {schedule!r} is not LENGTH:SHARE,..., as in 128:0.9,512:0.1."
    ) from error
  if len(shares) < len(pairs) or abs(sum(shares.values()) - 1.0) > 1e-6:
    raise ValueError(
      f"schedule {schedule!r} needs distinct lengths and shares that sum to 1."
    )
  totals = itertools.accumulate(shares.values(), initial=0.0)
  ends = (round(total * num_train_steps) for total in totals)
  steps = {}
  for length, (start, end) in zip(shares, itertools.pairwise(ends)):
    steps[length] = end - start
    if end <= start:
      raise ValueError(
        f"schedule {schedule!r} gives length {length} {end - start} of "
        f"{num_train_steps} steps, the `num_train_steps`."
      )
  return steps


def phases(
  schedule: str, num_train_steps: int, files: input_pipeline.RecordFiles
) -> list[Phase]:
  """Returns the phases of training, each with the files of its length.

  Raises ValueError for a file without a phase, and a phase without a file.
  """
  steps = parse(schedule, num_train_steps)
  forms = {
    path: pretraining_records.RecordFormat.read(path) for path in files.paths
  }
  for path, form in forms.items():
    if form.max_seq_length not in steps:
      raise ValueError(
        f"{path} has records of max_seq_length {form.max_seq_length}, which is "
        f"not in schedule {schedule!r}."
      )
  phases = []
  for length, num_steps in steps.items():
    own = {p: f for p, f in forms.items() if f.max_seq_length == length}
    if not own:
      raise ValueError(
        f"no file of `input_file` has records of max_seq_length {length} of "
        f"schedule {schedule!r}."
      )
    counts = tuple(n for p, n in zip(files.paths, files.counts) if p in own)
    records = pretraining_records.PretrainingRecords(
      input_pipeline.RecordFiles(tuple(own), sum(counts), counts),
      next(iter(own.values())),
    )
    phases.append(Phase(records, num_steps))
  return phases


def training_dataset(
  phases: Sequence[Phase],
  batch_size: int,
  seed: int,
  steps_done: int,
  vocab_size: int,
  type_vocab_size: int,
) -> tf.data.Dataset:
  """Returns the batches of all phases, without the first `steps_done`."""
  batches = None
  for phase in phases:
    num_skipped = min(steps_done, phase.num_steps)
    steps_done -= num_skipped
    if num_skipped == phase.num_steps:
      continue
    phase_batches = phase.records.training_dataset(
      batch_size, seed, num_skipped, vocab_size, type_vocab_size
    ).take(phase.num_steps - num_skipped)
    batches = batches.concatenate(phase_batches) if batches else phase_batches
  return batches
