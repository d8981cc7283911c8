"""Runs `create_pretraining_data` on Apache Beam.

A pipeline of one step calls `build_task` for every shard, as the processes of
`--num_workers` do, so the files are the same.
"""

import dataclasses
import functools
import importlib.metadata
import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from bert_tf.data import config as data_config
from bert_tf.data import pretraining_data, pretraining_shards
from bert_tf.files import atomic, errors, paths


def create(
  config: data_config.PretrainingDataConfig,
  input_files: Sequence[str],
  output_file: str,
  num_shards: int,
  runner: str,
  pipeline_options: str = "",
  resume: bool = False,
) -> pretraining_shards.Summary:
  """Turns text files into TFRecords, as `pretraining_shards.create` does.

  The text is read once here, to plan the shards, and once by the workers. They
  need bert_tf installed and all files under the same names. `runner` is a name
  that Beam knows or the dotted name of a class; `pipeline_options` are in a
  shell's syntax.

  Raises:
    ValueError: if Beam does not know the runner or an option.
    ImportError: if apache-beam, or a package of the runner, is missing.
    ChildProcessError: if the pipeline failed.
  """
  if num_shards < 2:
    raise ValueError(
      f"`runner={runner}` with num_shards {num_shards} would leave all work to "
      "one worker; set `num_shards` to some times the number of workers."
    )
  pipeline = _pipeline(runner, pipeline_options)
  counts_file = atomic.hidden(output_file, "counts.json")
  build = functools.partial(_build, pipeline, counts_file)
  return pretraining_shards.create(
    config, input_files, output_file, num_shards, resume=resume, build=build
  )


def _pipeline(runner: str, pipeline_options: str) -> Any:
  """Returns an empty `beam.Pipeline`; raises ValueError if Beam refuses."""
  with errors.needs_extra("`runner`, unlike `num_workers`,", extra="beam"):
    import apache_beam as beam
  options = _parsed(pipeline_options)
  if runner in ("DirectRunner", "SwitchingDirectRunner"):
    # DirectRunner may download and start another program, Prism, which heeds
    # neither direct_num_workers nor direct_running_mode.
    runner = "FnApiRunner"
  try:
    return beam.Pipeline(runner, options)
  except (ValueError, AttributeError, ImportError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(f"`runner={runner}`: {reason}") from error


def _parsed(pipeline_options: str) -> Any:
  """Parses `PipelineOptions`; raises ValueError for unknown options."""
  from apache_beam.options import pipeline_options as beam_options

  def refuse(reason: str) -> NoReturn:
    version = importlib.metadata.version("apache-beam")
    raise ValueError(
      f"`pipeline_options={pipeline_options}`: {reason} (apache-beam "
      f"{version}; `pipeline_options=--help` lists all options)."
    )

  def check(parser: Any) -> None:
    parser.error = refuse  # It would print all options and exit.
    _, unknown = parser.parse_known_args(words)
    if unknown:
      refuse(f"no option {' '.join(unknown)}")

  try:
    words = shlex.split(pipeline_options)
  except ValueError as error:
    refuse(str(error))
  if any(word.split("=")[0] == "--runner" for word in words):
    refuse("name the runner with `runner` alone")
  # Beam itself only logs unknown options; this passes its parser to `check`.
  beam_options.PipelineOptions([]).get_all_options(add_extra_args_fn=check)
  return beam_options.PipelineOptions(words)


def _build(
  pipeline: Any,
  counts_file: str,
  config: data_config.PretrainingDataConfig,
  tasks: Sequence[pretraining_shards.Task],
) -> dict[int, pretraining_data.ShardCounts]:
  """Builds shards by running the pipeline, once."""
  if not tasks:
    return {}
  import apache_beam as beam

  (
    pipeline
    | "shards" >> beam.Create(tasks)
    | "spread over the workers" >> beam.Reshuffle()
    | "build" >> beam.Map(functools.partial(_build_one, config))
    | "all counts" >> beam.combiners.ToList()
    | "write counts" >> beam.Map(functools.partial(_write_counts, counts_file))
  )
  try:
    _run(pipeline)
    counts = json.loads(paths.read_text(counts_file))
    return {i: pretraining_data.ShardCounts(**c) for i, c in counts}
  finally:
    paths.remove(counts_file)


def _build_one(
  config: data_config.PretrainingDataConfig, task: pretraining_shards.Task
) -> tuple[int, dict[str, int]]:
  """Builds one shard in a worker; returns its index and counts."""
  counts = pretraining_shards.build_task(config, task, lambda count: None)
  return task.shard.index, dataclasses.asdict(counts)


def _run(pipeline: Any) -> None:
  """Runs a pipeline to its end; ChildProcessError if it failed."""
  from apache_beam.runners import runner

  try:
    state = pipeline.run().wait_until_finish()
  except RuntimeError as error:
    # The traceback of a worker, as text.
    reason = str(error).strip().splitlines()[-1]
    raise ChildProcessError(f"the Beam pipeline failed: {reason}") from error
  if state != runner.PipelineState.DONE:
    raise ChildProcessError(
      f"the Beam pipeline ended as {state}; see the runner's log. `resume` "
      "keeps the shards that are whole."
    )


def _write_counts(path: str, counts: Iterable[tuple[int, dict]]) -> None:
  """Writes the counts of all shards, in a worker."""
  atomic.write(path, [json.dumps(list(counts))])
