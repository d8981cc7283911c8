"""Variants of a pre-training, and experiments that compare them.

Imports no TensorFlow.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from research.ablations import papers, runs
from research.ablations import scales as scales_lib

PERPLEXITY = "perplexity"

# What is trained from random values needs more than what is fine-tuned.
_FEATURE_LEARNING_RATE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
  """One row of an experiment's table: a pre-training and fine-tunings of it."""

  label: str
  pretraining: runs.Pretraining
  fine_tunings: dict[str, runs.FineTuning]  # By column.
  has_perplexity: bool = False  # Whether that is a column too.
  # The label of the variant that it is compared with; None for the first.
  baseline: str | None = None

  def runs(self, seed: int) -> Iterator[runs.Run]:
    """Yields the runs of one seed, the pre-training first."""
    yield runs.Run(pretraining=self.pretraining, seed=seed)
    for fine_tuning in self.fine_tunings.values():
      yield runs.Run(
        pretraining=self.pretraining, fine_tuning=fine_tuning, seed=seed
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """A question, its variants, and what was published."""

  name: str
  title: str
  question: str
  variants: tuple[Variant, ...]
  published: papers.Published | None = None
  # What to expect at another size, or to keep in mind.
  remark: str = ""
  # Whether the pre-trainings' losses are of the same kind.
  compares_losses: bool = True

  @property
  def columns(self) -> list[str]:
    """The columns of the table, each once, in order."""
    names: dict[str, None] = {}
    for variant in self.variants:
      if variant.has_perplexity:
        names[PERPLEXITY] = None
      names |= dict.fromkeys(variant.fine_tunings)
    return list(names)

  def runs(self, seeds: Sequence[int]) -> Iterator[runs.Run]:
    """Yields all runs: all variants of a seed before the next seed."""
    for seed in seeds:
      for variant in self.variants:
        yield from variant.runs(seed)


class Builder:
  """Makes variants at a scale, of the tasks whose data are there."""

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
    **changes: Any,
  ) -> Variant:
    """Returns the base with changes to its pre-training and fine-tunings."""
    return Variant(
      label=label,
      pretraining=dataclasses.replace(self.scale.base, **pretraining or {}),
      fine_tunings={
        name: dataclasses.replace(found, **changes)
        for name, found in self._fine_tunings(tasks)
      },
      has_perplexity=has_perplexity,
      baseline=baseline,
    )

  def variants(
    self,
    tasks: Sequence[str],
    changes: Mapping[str, dict[str, Any]],
    has_perplexity: bool = True,
  ) -> tuple[Variant, ...]:
    """Returns variants of the same tasks, by label and pre-training."""
    return tuple(
      self.variant(label, tasks, change, has_perplexity)
      for label, change in changes.items()
    )

  def _fine_tunings(
    self, tasks: Sequence[str]
  ) -> Iterator[tuple[str, runs.FineTuning]]:
    """Yields column and settings of the tasks that there are."""
    found = [
      (name, tuning)
      for name in tasks
      if (tuning := self.scale.fine_tuning(name)) and name in self._tasks
    ]
    yield from found[: self.scale.max_tasks]

  @property
  def usual_layers(self) -> str:
    """The features of the paper's table 8; the last layer of small models."""
    is_small = self.scale.base.num_hidden_layers < 4
    return "last" if is_small else "concat_last_four"

  def with_features(self, variant: Variant) -> Variant:
    """Returns a variant with the feature-based approach as a column more."""
    if "NER" not in variant.fine_tunings:
      return variant
    columns = dict(variant.fine_tunings)
    columns["NER, features"] = features(columns["NER"], self.usual_layers)
    return dataclasses.replace(variant, fine_tunings=columns)


def features(fine_tuning: runs.FineTuning, layers: str) -> runs.FineTuning:
  """Returns the feature-based approach in place of a fine-tuning."""
  return dataclasses.replace(
    fine_tuning, feature_layers=layers, learning_rate=_FEATURE_LEARNING_RATE
  )
