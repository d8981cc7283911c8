"""Makes and runs Apache Beam pipelines."""

import shlex
from typing import Any

from bert_tf.files import errors


def create(runner: str, pipeline_options: str) -> Any:
  """Returns an empty `beam.Pipeline`.

  Raises:
    ValueError: for an unknown runner or bad options.
    ImportError: if apache-beam is missing.
  """
  with errors.needs_extra("`runner`, unlike `num_workers`,", extra="beam"):
    import apache_beam as beam
    from apache_beam.options import pipeline_options as beam_options
  if runner in ("DirectRunner", "SwitchingDirectRunner"):
    # DirectRunner may download and start another program, Prism, which ignores
    # direct_num_workers and direct_running_mode.
    runner = "FnApiRunner"
  try:
    options = beam_options.PipelineOptions(shlex.split(pipeline_options))
    return beam.Pipeline(runner, options)
  except (ValueError, AttributeError, ImportError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(f"`runner={runner}`: {reason}") from error


def run(pipeline: Any) -> None:
  """Runs a pipeline to its end; raises ChildProcessError if it fails."""
  from apache_beam.runners import runner

  try:
    state = pipeline.run().wait_until_finish()
  except RuntimeError as error:
    # The message is the traceback of a worker.
    reason = str(error).strip().splitlines()[-1]
    raise ChildProcessError(f"the Beam pipeline failed: {reason}") from error
  if state != runner.PipelineState.DONE:
    raise ChildProcessError(f"the Beam pipeline ended as {state}.")
