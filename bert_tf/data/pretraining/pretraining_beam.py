"""Runs `create_pretraining_data` on Apache Beam.

The pipeline calls `build_task` for every shard, as the worker processes of
`--num_workers` do, so the output files are the same.
"""

import dataclasses
import functools
import shlex
from collections.abc import Sequence
from typing import Any

from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_data, pretraining_shards
from bert_tf.files import atomic, json_files, packages, paths


def builder(
  output_file: str, runner: str, pipeline_options: str = ""
) -> pretraining_shards.Builder:
  """Returns the `build` of `pretraining_shards.create` that runs on Beam.

  Workers need bert_tf, and must see all files under the same names. `runner` is
  the name of a Beam runner or the dotted name of its class, and
  `pipeline_options` are in shell syntax. Raises ValueError for a runner or an
  option that Beam does not know; building raises ChildProcessError if the
  pipeline fails.
  """
  with packages.needs_extra("`runner`, unlike `num_workers`,", extra="beam"):
    import apache_beam as beam
    from apache_beam.options import pipeline_options as beam_options
  if runner in ("DirectRunner", "SwitchingDirectRunner"):
    # DirectRunner may download and start another program, Prism, which ignores
    # direct_num_workers and direct_running_mode.
    runner = "FnApiRunner"
  try:
    options = beam_options.PipelineOptions(shlex.split(pipeline_options))
    pipeline = beam.Pipeline(runner, options)
  except (ValueError, AttributeError, ImportError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(f"`runner={runner}`: {reason}") from error
  counts_file = atomic.hidden(output_file, "counts.json")
  return functools.partial(_build, pipeline, counts_file)


def _build(
  pipeline: Any,
  counts_file: str,
  config: PretrainingDataConfig,
  tasks: Sequence[pretraining_shards.ShardTask],
) -> dict[int, pretraining_data.ShardCounts]:
  if not tasks:
    return {}
  import apache_beam as beam
  from apache_beam.runners import runner

  (
    pipeline
    | "tasks" >> beam.Create(tasks)
    | "spread over the workers" >> beam.Reshuffle()
    | "build" >> beam.Map(functools.partial(_build_one, config))
    | "all counts" >> beam.combiners.ToList()
    | "write counts" >> beam.Map(lambda all: json_files.write(counts_file, all))
  )
  try:
    state = pipeline.run().wait_until_finish()
    if state != runner.PipelineState.DONE:
      raise ChildProcessError(f"the Beam pipeline ended as {state}.")
    counts = json_files.read(counts_file)
    return {i: pretraining_data.ShardCounts(**c) for i, c in counts}
  except RuntimeError as error:
    # The message is the traceback of a worker.
    reason = str(error).strip().splitlines()[-1]
    raise ChildProcessError(f"the Beam pipeline failed: {reason}") from error
  finally:
    paths.remove(counts_file)


def _build_one(
  config: PretrainingDataConfig, task: pretraining_shards.ShardTask
) -> tuple[int, dict[str, int]]:
  counts = pretraining_shards.build_task(config, task)
  return task.shard.index, dataclasses.asdict(counts)
