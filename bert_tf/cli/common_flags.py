"""What every script shares: how it starts and how it reports a mistake."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from absl import app, logging

from bert_tf.files import errors

# TensorFlow's own start-up notes; what this project logs is not affected.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def _op_errors() -> tuple[type[Exception], ...]:
  """What TensorFlow's operations raise, if TensorFlow is in use."""
  tensorflow = sys.modules.get("tensorflow")
  return (tensorflow.errors.OpError,) if tensorflow else ()


def _user_errors() -> tuple[type[Exception], ...]:
  """What a user can mend: bad values, files, disks, missing packages."""
  return (ValueError, OSError, ImportError, *_op_errors())


def report(error: Exception) -> None:
  """Prints a mistake to stderr, with `--verbosity=1` after its traceback."""
  logging.debug("Where it was raised:", exc_info=error)
  message = str(error) or type(error).__name__
  if isinstance(error, _op_errors()):
    message = errors.reason(error)
  script = os.path.basename(sys.argv[0])
  print(f"{script}: error: {message}", file=sys.stderr, flush=True)


def run(
  main: Callable[..., None],
  argument_names: Sequence[str] = (),
  num_optional: int = 0,
) -> None:
  """Parses the flags and runs `main()`; never returns.

  A user's mistake ends in one line on stderr and exit status 1; with
  `--verbosity=1` the traceback is printed before it. Ctrl-C ends with status
  130. An unknown flag is refused with the nearest flag's name.

  Args:
    main: is given the arguments that are no flags.
    argument_names: of these arguments, in the help and in errors.
    num_optional: how many of the last of them may be left out.
  """

  def _main(argv: list[str]) -> int:
    if len(argv) - 1 > len(argument_names):
      raise app.UsageError(
        f"unexpected argument {argv[1 + len(argument_names)]!r}; flags are "
        "written --name=value."
      )
    if len(argv) - 1 < len(argument_names) - num_optional:
      raise app.UsageError(f"give {' '.join(argument_names)}.")
    return _run_reporting_mistakes(lambda: main(*argv[1:]))

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
    report(error)
    return 1
  return 0
