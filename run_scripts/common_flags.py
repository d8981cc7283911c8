"""What every script shares: how it starts and how it reports a mistake."""

import os
import re
import sys
from collections.abc import Callable, Mapping

from absl import app, flags, logging

# TensorFlow's own start-up notes; what this project logs is not affected.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


FLAGS = flags.FLAGS


def define_tpu_flags() -> None:
  """Defines the original's flags for TPUs."""
  flags.DEFINE_bool("use_tpu", False, "Whether to run on a TPU.")
  flags.DEFINE_string("tpu_name", None, "The TPU to use.")
  flags.DEFINE_string("tpu_zone", None, "The zone of the TPU.")
  flags.DEFINE_string("gcp_project", None, "The project of the TPU.")
  flags.DEFINE_string("master", None, "The address of a TensorFlow master.")
  flags.DEFINE_integer("num_tpu_cores", 8, "Cores of the TPU.")


def check_tpu_flags() -> None:
  """Raises ValueError for a flag of a device that cannot be used yet."""
  names = ("use_tpu", "tpu_name", "tpu_zone", "gcp_project", "master")
  for name in names:
    if FLAGS[name].value:
      raise ValueError(
        f"--{name} cannot be honoured: this version trains on the CPU or on "
        "one GPU, which it finds by itself; leave the flag out."
      )


def define_training_flags() -> None:
  """Defines the flags of training that the original did not have."""
  flags.DEFINE_integer(
    "seed", 12345, "Of initial values, dropout and the order of the data."
  )
  flags.DEFINE_integer(
    "keep_checkpoint_max",
    5,
    "How many of the newest checkpoints stay; 0 for all.",
    lower_bound=0,
  )
  flags.DEFINE_integer(
    "log_every_steps", 100, "Steps between two log lines.", lower_bound=1
  )
  flags.DEFINE_bool(
    "use_xla", True, "Whether the training step is compiled by XLA."
  )


def define_evaluation_flags(default_metric: str) -> None:
  """Defines the flags of evaluation while training."""
  flags.DEFINE_integer(
    "eval_every_steps",
    0,
    "Steps between two evaluations while training, the last step always being "
    "one; 0 for none. The weights of the best are kept in output_dir/best, a "
    "folder that --output_dir takes to evaluate and predict with them.",
    lower_bound=0,
  )
  flags.DEFINE_string(
    "best_metric",
    None,
    "Which result decides on the best: a loss or the perplexity by the lowest "
    f"value, any other by the highest; default: {default_metric}.",
  )
  flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "Evaluations in a row without a better one after which training ends; 0 "
    "for never.",
    lower_bound=0,
  )


def _user_errors() -> tuple[type[Exception], ...]:
  """What a user can mend: bad values, files, disks, missing packages."""
  tensorflow = sys.modules.get("tensorflow")
  op_errors = (tensorflow.errors.OpError,) if tensorflow else ()
  return (ValueError, OSError, ImportError, *op_errors)


def _one_line(error: Exception) -> str:
  """Returns the first line, or what an assertion in a graph says."""
  text = str(error)
  failed_assertion = re.search(r"assertion failed: \[(.*?)\]", text, re.DOTALL)
  if failed_assertion:
    return failed_assertion.group(1)
  return text.splitlines()[0] if text else type(error).__name__


def run(main: Callable[[], None]) -> None:
  """Parses the flags and runs `main()`; never returns.

  A user's mistake ends in one line on stderr and exit status 1; with
  `--verbosity=1` the traceback is printed before it. Ctrl-C ends with status
  130. An unknown flag is refused with the nearest flag's name.
  """

  def _main(argv: list[str]) -> int:
    if len(argv) > 1:
      raise app.UsageError(
        f"unexpected argument {argv[1]!r}; flags are written --name=value."
      )
    return _run_reporting_mistakes(main)

  logging.set_verbosity(logging.INFO)
  app.run(_main)


def run_command(commands: Mapping[str, Callable[[], None]]) -> None:
  """As `run`, for a script whose one argument says which of `commands`."""

  def _main(argv: list[str]) -> int:
    if len(argv) != 2 or argv[1] not in commands:
      raise app.UsageError(f"name one of: {', '.join(commands)}.")
    return _run_reporting_mistakes(commands[argv[1]])

  logging.set_verbosity(logging.INFO)
  app.run(_main)


def _run_reporting_mistakes(main: Callable[[], None]) -> int:
  """Runs `main()` and returns the exit status."""
  try:
    main()
  except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    return 130
  except _user_errors() as error:
    logging.debug("Where it was raised:", exc_info=True)
    script = os.path.basename(sys.argv[0])
    print(f"{script}: error: {error}", file=sys.stderr)
    return 1
  return 0
