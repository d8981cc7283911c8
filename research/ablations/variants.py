"""Variants of a pre-training, and experiments that compare them.

Imports no TensorFlow.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from research.ablations import papers, runs
from research.ablations import scales as scales_lib

PERPLEXITY = "perplexity"

# A head on fixed features starts from random values and needs larger updates
# than fine-tuning.
_FEATURE_LEARNING_RATE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
  """A row of an experiment's table: a pre-training and its fine-tunings."""

  label: str
  pretraining: runs.Pretraining
  fine_tunings: dict[str, runs.FineTuning]  # By column of the table.
  has_perplexity: bool = False  # Whether perplexity is a column.
  baseline: str | None = None  # Label of a variant; None for the first.

  def runs(self, seed: int) -> Iterator[runs.Run]:
    """Yields the runs of a seed, the pre-training first."""
    for fine_tuning in (None, *self.fine_tunings.values()):
      yield runs.Run(
        pretraining=self.pretraining, fine_tuning=fine_tuning, seed=seed
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """A question, its variants, and the published results."""

  name: str
  title: str
  question: str
  variants: tuple[Variant, ...]
  published: papers.Published | None = None
  remark: str = ""  # Advice on reading the results.
  compares_losses: bool = True  # Whether losses of the variants are comparable.

  @property
  def columns(self) -> list[str]:
    """The columns of the table, in the order in which variants name them."""
    names: dict[str, None] = {}
    for variant in self.variants:
      if variant.has_perplexity:
        names[PERPLEXITY] = None
      names |= dict.fromkeys(variant.fine_tunings)
    return list(names)

  def runs(self, seeds: Sequence[int]) -> Iterator[runs.Run]:
    """Yields all runs, seed by seed."""
    for seed in seeds:
      for variant in self.variants:
        yield from variant.runs(seed)


class Builder:
  """Makes variants at a scale, for the tasks that have data.

  Args:
    scale: the settings that variants change, and the maximum number of tasks.
    tasks: names of the tasks that have data.
  """

  def __init__(self, scale: scales_lib.Scale, tasks: Sequence[str]) -> None:
    self.scale = scale
    self._tasks = tasks

  def variant(
    self,
    label: str,
    tasks: Sequence[str],
    pretraining: dict[str, Any] | None = None,
    has_perplexity: bool = False,
    baseline: str | None = None,
    **fine_tuning: Any,
  ) -> Variant:
    """Returns a variant of the scale's base.

    Args:
      label: row label of the variant.
      tasks: tasks to fine-tune on. Leaves out tasks without data and tasks
        that the scale leaves out.
      pretraining: changed settings of the pre-training.
      has_perplexity: whether perplexity is a column.
      baseline: label of the baseline; None for the first variant.
      **fine_tuning: changed settings of every fine-tuning.
    """
    fine_tunings = [
      dataclasses.replace(settings, **fine_tuning)
      for name in tasks
      if (settings := self.scale.fine_tuning(name)) and name in self._tasks
    ]
    return Variant(
      label=label,
      pretraining=dataclasses.replace(self.scale.base, **pretraining or {}),
      fine_tunings={f.task: f for f in fine_tunings[: self.scale.max_tasks]},
      has_perplexity=has_perplexity,
      baseline=baseline,
    )

  def variants(
    self,
    tasks: Sequence[str],
    changes: Mapping[str, dict[str, Any]],
    has_perplexity: bool = True,
  ) -> tuple[Variant, ...]:
    """Returns variants on the same tasks; `changes` are settings by label."""
    return tuple(
      self.variant(label, tasks, change, has_perplexity)
      for label, change in changes.items()
    )


def use_features(fine_tuning: runs.FineTuning, layers: str) -> runs.FineTuning:
  """Returns settings that train only a head, on fixed features of `layers`."""
  return dataclasses.replace(
    fine_tuning, feature_layers=layers, learning_rate=_FEATURE_LEARNING_RATE
  )
