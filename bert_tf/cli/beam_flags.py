"""Flags of commands that run on Apache Beam in place of local processes."""

import dataclasses
import functools
from collections.abc import Callable

from bert_tf import settings
from bert_tf.cli import config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamConfig:
  """The runner, if any."""

  runner: str | None = settings.setting(
    None,
    "Work on Apache Beam in place of --num_workers: DirectRunner (this "
    "machine), DataflowRunner, FlinkRunner, SparkRunner or another that Beam "
    "knows. Needs the extra beam.",
  )
  pipeline_options: str = settings.setting(
    "",
    "Options of Beam and its runner, separated by spaces, such as "
    "'--direct_running_mode=multi_processing --direct_num_workers=2'; '--help' "
    "lists them.",
  )


def create_corpus(
  config: BeamConfig, num_workers: int, resume: bool
) -> Callable[..., dict[str, int]]:
  """Returns what makes sentences of text, with the flags' processes."""
  from bert_tf.corpora import corpus_build

  if config.runner:
    return functools.partial(
      corpus_build.create_on_beam,
      runner=config.runner,
      pipeline_options=config.pipeline_options,
      resume=resume,
    )
  return functools.partial(
    corpus_build.create, num_workers=num_workers, resume=resume
  )


def check(config: BeamConfig, num_workers: int) -> None:
  """Raises ValueError for flags that exclude one another."""
  if config.runner and config_flags.is_given("num_workers"):
    raise ValueError(
      f"--num_workers={num_workers} is for this machine and "
      f"--runner={config.runner} for Beam; give one. Beam's workers are set in "
      "--pipeline_options."
    )
  if config.pipeline_options and not config.runner:
    raise ValueError(
      f"--pipeline_options={config.pipeline_options} has no meaning without "
      "--runner; add it, or drop the options."
    )
