"""Starts commands and turns mistakes into one line and an exit status."""

import contextlib
import functools
import gc
import io
import logging as python_logging
import os
import re
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterator

from absl import app, flags, logging

from bert_tf import settings
from bert_tf.cli import config_flags, model_flags
from bert_tf.files import errors, messages
from bert_tf.model.kernels import backend

# A shell's exit status of a program ended by a signal is this plus its number.
_SIGNAL_STATUS = 128

# Keras imports these packages if they are installed, but no command needs
# them there.
HIDDEN_FROM_KERAS = ("IPython", "PIL", "pandas")


class _LogFormatter(python_logging.Formatter):
  def formatMessage(self, record: python_logging.LogRecord) -> str:  # noqa: N802
    record.message = messages.printable(with_flags(record.message))
    if record.levelno > python_logging.INFO:
      record.message = f"{record.levelname.lower()}: {record.message}"
    return super().formatMessage(record)


def _stop(number: int, frame: types.FrameType | None) -> None:
  """Raises SystemExit, but ends the process at once during an import.

  TensorFlow and Keras turn an exception in their import into others.
  """
  if number == signal.SIGINT:
    os.write(2, b"interrupted\n")
  while frame:
    if frame.f_code.co_filename.startswith("<frozen importlib"):
      os._exit(_SIGNAL_STATUS + number)
    frame = frame.f_back
  signal.signal(number, signal.SIG_DFL)  # A second signal ends it at once.
  sys.exit(_SIGNAL_STATUS + number)


@contextlib.contextmanager
def exit_with_reader() -> Iterator[None]:
  """Within this scope, exits quietly at a signal or without a reader of stdout.

  The exit is an exception, so that unfinished files are removed. Python ignores
  SIGPIPE, which sockets need, so the signal's default action cannot be restored
  for the whole process.
  """
  for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
  ):
    if signal.getsignal(number) is default:
      signal.signal(number, _stop)
  try:
    try:
      yield
    finally:
      if sys.stdout is not None:
        sys.stdout.flush()
  except BrokenPipeError:
    # Python flushes stdout once more when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(_SIGNAL_STATUS + signal.SIGPIPE)


def show(text: str) -> None:
  """Prints text that a file or a model holds; escapes control characters."""
  print(messages.printable(text))


def with_flags(message: str) -> str:
  """Replaces `name` and `name=value` in a message by --name and --name=value.

  The library writes settings in backticks. Names that are not flags of this
  command stay unchanged.
  """
  return re.sub(
    r"`((\w+)(=[^`]*)?)`",
    lambda match: f"--{match[1]}" if match[2] in flags.FLAGS else match[0],
    message,
  )


def report(error: Exception) -> None:
  """Prints an error to stderr; with --verbosity=1 also its traceback."""
  logging.debug("Traceback of the error:", exc_info=error)
  name, tensorflow = type(error).__name__, sys.modules.get("tensorflow")
  message = str(error) or name
  if tensorflow and isinstance(error, tensorflow.errors.OpError):
    message = errors.reason(error)
  # Messages of other types, such as "KeyError: 'data'", are for programmers.
  elif not isinstance(error, (ValueError, OSError, ImportError, MemoryError)):
    first_line = message.strip().partition("\n")[0]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = (
      f"{name}: {first_line} ({frame.filename}:{frame.lineno}); --verbosity=1 "
      "shows the traceback."
    )
  is_exhausted = isinstance(error, MemoryError)
  if name == "ResourceExhaustedError":
    is_exhausted = errors.system_limit(error) is None
  if is_exhausted and not isinstance(error, errors.OutOfMemoryError):
    message = f"out of memory ({message}); lower batch sizes or lengths."
  program = os.path.basename(sys.argv[0])
  line = messages.printable(f"{program}: error: {with_flags(message)}")
  print(line, file=sys.stderr, flush=True)


def _parse(description: str, argv: list[str]) -> list[str]:
  """Parses the flags; --help, --help=all and -h print the help and exit."""
  for word in argv[1:]:  # In `--text --help`, --help is not the text.
    if re.fullmatch("-h|--?help(=all)?", word):
      print(config_flags.help_text(description, word.endswith("=all")))
      sys.exit()
  try:
    arguments = flags.FLAGS(argv)
    config_flags.check_required()
  except (flags.Error, ValueError, OSError) as error:
    message = re.sub(r"\('Non-boolean.*", "use true or false.", str(error))
    if isinstance(error, flags.UnrecognizedFlagError):
      name = f"--{error.flagname}"
      names = [f"--{flag.name}" for flag in config_flags.get_flags()]
      hint = messages.did_you_mean(name, names, cutoff=0.75)
      message = f"unknown flag {name}.{hint or ' See --help=all.'}"
    report(ValueError(message))
    sys.exit(1)
  return arguments


def run(
  main: Callable[..., None],
  description: str | None,
  *configs: type[settings.Dataclass],
  arguments: str = "",
) -> None:
  """Defines and parses the flags, calls `main` and exits; never returns.

  An error prints one line to stderr and exits with status 1. Ctrl-C exits with
  130, SIGTERM with 143, and a closed stdout, as in `| head`, with 141.

  Args:
    main: called with the positional arguments.
    description: what the command does, for --help.
    *configs: classes whose settings become flags.
    arguments: names of the positional arguments, those in brackets optional,
      such as "FILE [OTHER]".
  """

  def status_of_main(argv: list[str]) -> int:
    handler = logging.get_absl_handler()
    if not logging.level_debug():
      # TensorFlow logs how it saves a SavedModel through absl, as this package.
      handler.addFilter(
        lambda record: (
          record.levelno > python_logging.INFO
          or "tensorflow" not in record.pathname
        )
      )
    handler.setFormatter(_LogFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    handler.python_handler.stream = sys.stderr
    logging.get_absl_logger().setLevel(python_logging.root.level)
    python_logging.root.setLevel(python_logging.WARNING)
    # TensorFlow warns of things that a user cannot change, such as retracing.
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)
    given, names = argv[1:], arguments.split()
    try:
      if len(given) > len(names):
        raise ValueError(
          f"unexpected argument {given[len(names)]!r}; flags are written "
          "--name=value."
        )
      if len(given) < sum(name[0] != "[" for name in names):
        raise ValueError(f"give {arguments}.")
      config_flags.check_paths()
      main(*given)
    except BrokenPipeError:
      raise  # For exit_with_reader.
    except Exception as error:
      report(error)
      return 1
    finally:
      # Otherwise Python collects garbage several times at exit, which takes a
      # second if TensorFlow is imported.
      gc.collect()
      gc.freeze()
    return 0

  with exit_with_reader():
    for config in configs:
      config_flags.define(config)
    # Before the first import of Keras.
    sys.meta_path.insert(0, backend.KerasFinder(HIDDEN_FROM_KERAS))
    # Python's own threshold of 700 new objects collects garbage for a quarter
    # of a second while TensorFlow is imported, and frees nothing.
    gc.set_threshold(50_000)
    if isinstance(sys.stdout, io.TextIOWrapper):
      sys.stdout.reconfigure(errors="backslashreplace")
    parser = functools.partial(_parse, description or "")
    app.run(status_of_main, flags_parser=parser)


def of(
  config_class: type[settings.Dataclass],
  arguments: str = "",
  needs_model: bool = False,
) -> Callable[[Callable[..., None]], Callable[[], None]]:
  """Decorates the function of a command, whose module explains it for --help.

  The function gets the config and the arguments. The result takes none and
  never returns; see `run`.

  Args:
    config_class: the class whose settings become flags.
    arguments: names of the positional arguments; see `run`.
    needs_model: whether the flags of ModelFlags join them.
  """
  configs = (config_class, *[model_flags.ModelFlags] * needs_model)

  def decorate(main: Callable[..., None]) -> Callable[[], None]:
    def build_and_run(*given: str) -> None:
      start = model_flags.init_checkpoint(True) if needs_model else {}
      main(config_flags.build(config_class, **start), *given)

    help_text = sys.modules[main.__module__].__doc__
    return functools.partial(
      run, build_and_run, help_text, *configs, arguments=arguments
    )

  return decorate
