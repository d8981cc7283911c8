"""What every script shares: how it starts and how it reports a mistake."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from absl import app, logging

# TensorFlow's own start-up notes; what this project logs is not affected.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


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


def run(main: Callable[..., None], argument_names: Sequence[str] = ()) -> None:
  """Parses the flags and runs `main()`; never returns.

  A user's mistake ends in one line on stderr and exit status 1; with
  `--verbosity=1` the traceback is printed before it. Ctrl-C ends with status
  130. An unknown flag is refused with the nearest flag's name.

  Args:
    main: is given the arguments that are no flags.
    argument_names: of these arguments, in the help and in errors.
  """

  def _main(argv: list[str]) -> int:
    if len(argv) - 1 > len(argument_names):
      raise app.UsageError(
        f"unexpected argument {argv[1 + len(argument_names)]!r}; flags are "
        "written --name=value."
      )
    if len(argv) - 1 < len(argument_names):
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
    logging.debug("Where it was raised:", exc_info=True)
    script = os.path.basename(sys.argv[0])
    print(f"{script}: error: {error}", file=sys.stderr)
    return 1
  return 0
