"""Flags of commands that read text in any format, with processes or Beam."""

import dataclasses
import functools
from collections.abc import Callable, Iterable

from bert_tf import settings
from bert_tf.cli import config_flags
from bert_tf.corpora import sources, text_config

# The input formats that use each flag.
_FORMATS = {
  "documents": {text_config.TEXT},
  "text_column": {text_config.JSONL, text_config.PARQUET},
  "language": {
    text_config.TEXT,
    text_config.JSONL,
    text_config.PARQUET,
    text_config.WIKIEXTRACTOR,
  },
}


def check(inputs: Iterable[sources.InputFile]) -> None:
  """Raises ValueError if the user set a flag that no input uses."""
  formats = {source.input_format for source in inputs}
  for name, used_by in _FORMATS.items():
    if not formats & used_by:
      config_flags.refuse_given(
        [name],
        f"is for input of the formats {', '.join(sorted(used_by))}; this input "
        f"is {', '.join(sorted(formats))} (see --input_format)",
      )


def check_text(
  text: str, reading: text_config.TextConfig, pydoc_packages: str = ""
) -> None:
  """Calls `check` for the files in `text` if the user set a flag in _FORMATS.

  Finding the inputs takes a while: it detects their formats and writes pydoc's
  text.

  Raises:
    ValueError: as `check` and `sources.find_files`.
  """
  if any(map(config_flags.is_given, _FORMATS)):
    check(sources.find_files(text, reading, text_config.TEXT, pydoc_packages))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamConfig:
  """The Beam runner and its options. Without a runner, Beam is not used."""

  runner: str | None = settings.setting(
    None,
    "Apache Beam runner to use instead of --num_workers: DirectRunner (this "
    "machine), DataflowRunner, FlinkRunner, SparkRunner or any other. Needs "
    "the extra beam.",
    topic=settings.DEVICES,
  )
  pipeline_options: str = settings.setting(
    "",
    "Options of Beam and its runner, separated by spaces, such as "
    "'--direct_running_mode=multi_processing --direct_num_workers=2'. '--help' "
    "lists all options.",
    topic=settings.DEVICES,
  )


def create_corpus(
  config: BeamConfig, num_workers: int, resume: bool
) -> Callable[..., dict[str, int]]:
  """Returns the function that builds a corpus: on Beam if a runner is set."""
  from bert_tf.corpora import corpus_build

  if config.runner:
    return functools.partial(
      corpus_build.create_on_beam, resume=resume, **vars(config)
    )
  return functools.partial(
    corpus_build.create, num_workers=num_workers, resume=resume
  )


def check_beam(config: BeamConfig, num_workers: int) -> None:
  """Raises ValueError for flags that exclude each other."""
  if config.runner and config_flags.is_given("num_workers"):
    raise ValueError(
      f"--num_workers={num_workers} is for this machine and "
      f"--runner={config.runner} for Beam; give only one. --pipeline_options "
      "sets the workers of Beam."
    )
  if config.pipeline_options and not config.runner:
    raise ValueError(
      f"--pipeline_options={config.pipeline_options} needs --runner; add it, "
      "or drop the options."
    )
