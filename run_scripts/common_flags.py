"""What every script shares: how it starts and how it reports a mistake."""

import os
import sys
from collections.abc import Callable

from absl import app, logging

# TensorFlow's own start-up notes; what this project logs is not affected.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def _user_errors() -> tuple[type[Exception], ...]:
  """What a user can mend: bad values, files, disks, missing packages."""
  tensorflow = sys.modules.get("tensorflow")
  op_errors = (tensorflow.errors.OpError,) if tensorflow else ()
  return (ValueError, OSError, ImportError, *op_errors)


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
    try:
      main()
    except KeyboardInterrupt:
      print("interrupted", file=sys.stderr)
      return 130
    except _user_errors() as error:
      logging.debug("Where it was raised:", exc_info=True)
      print(f"{os.path.basename(argv[0])}: error: {error}", file=sys.stderr)
      return 1
    return 0

  logging.set_verbosity(logging.INFO)
  app.run(_main)
