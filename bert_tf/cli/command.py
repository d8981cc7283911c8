"""How a command starts, shows its help and reports a mistake."""

import os
import sys
from collections.abc import Callable, Sequence

from absl import app, flags, logging

from bert_tf.cli import config_flags
from bert_tf.files import errors

# Hides TensorFlow's own start-up notes; this project's log is not affected.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


class _HelpFlag(flags.BooleanFlag):
  """Prints what the command does and its flags, in groups."""

  def __init__(self, name: str, description: str | None) -> None:
    short_name = "?" if name == "help" else None
    super().__init__(
      name, False, "show this help", short_name, allow_override=True
    )
    self._description = description

  def parse(self, argument: str | bool) -> None:
    """Prints the help and ends the program."""
    if not self._parse(argument):
      return
    parts = [(self._description or "").strip()]
    by_group = flags.FLAGS.flags_by_module_dict()
    parts += [
      flags.FLAGS.module_help(group).strip()
      for group in config_flags.GROUPS
      if group in by_group
    ]
    print(*parts, "Flags of absl: --helpfull.", sep="\n\n")
    sys.exit(1)  # As absl does.


def _op_errors() -> tuple[type[Exception], ...]:
  """Returns what TensorFlow's operations raise, if TensorFlow is in use."""
  tensorflow = sys.modules.get("tensorflow")
  return (tensorflow.errors.OpError,) if tensorflow else ()


def _user_errors() -> tuple[type[Exception], ...]:
  """Returns errors that a user can mend: values, files, missing packages."""
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
  description: str | None,
  argument_names: Sequence[str] = (),
  num_optional: int = 0,
) -> None:
  """Parses the flags and runs `main()`; never returns.

  A user's mistake ends in one line on stderr and exit status 1; with
  `--verbosity=1` the traceback is printed before it. Ctrl-C ends with status
  130. An unknown flag is refused with the nearest flag's name.

  Args:
    main: is given the arguments that are no flags.
    description: what the command does, for the help.
    argument_names: names of these arguments, in the help and in errors.
    num_optional: how many of the last of them may be left out.
  """

  def check_and_run(*arguments: str) -> None:
    if len(arguments) > len(argument_names):
      raise ValueError(
        f"unexpected argument {arguments[len(argument_names)]!r}; flags are "
        "written --name=value."
      )
    if len(arguments) < len(argument_names) - num_optional:
      raise ValueError(f"give {' '.join(argument_names)}.")
    main(*arguments)

  _start(check_and_run, description)


def _start(main: Callable[..., None], description: str | None) -> None:
  """Parses the flags, runs `main` and ends with its exit status."""

  def status_of_main(argv: list[str]) -> int:
    try:
      main(*argv[1:])
    except KeyboardInterrupt:
      print("interrupted", file=sys.stderr)
      return 130
    except _user_errors() as error:
      report(error)
      return 1
    return 0

  logging.set_verbosity(logging.INFO)
  app.define_help_flags()
  for name in ("help", "helpshort"):
    flags.DEFINE_flag(_HelpFlag(name, description), module_name="absl.app")
  app.run(status_of_main)
