"""Texts about flags: --help, short and complete, and the missing flags."""

import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from absl import flags

from bert_tf.cli import config_flags

# Maximum flags of a command whose --help shows all flags.
_MAX_FLAGS_OF_SHORT_HELP = 12

_WIDTH = 80
_TEXT_COLUMN = 27

# Marks the flags that the 2018 release has, too.
_ORIGINAL = " *"


class HelpFlag(flags.BooleanFlag):
  """Prints the description of the command and its flags.

  --help shows the flags that most users need. --help=all shows all flags, by
  topic.
  """

  def __init__(self, name: str, description: str) -> None:
    text = "show the main flags; --help=all shows all flags, by topic"
    short_name = "?" if name == "help" else None
    super().__init__(name, False, text, short_name, allow_override=True)
    self._description = description

  def parse(self, argument: str | bool) -> None:
    """Prints the help and ends the program, if the flag is set."""
    if argument == "all":
      print(complete_help(self._description))
      sys.exit()
    is_set = self._parse(argument)
    if is_set:
      print(short_help(self._description))
      sys.exit()


def is_script() -> bool:
  """Returns whether a script of run_scripts/ runs, not a `bert-tf` command."""
  return not sys.argv[0].startswith("bert-tf ")


def short_help(
  description: str, flag_values: flags.FlagValues = flags.FLAGS
) -> str:
  """Returns the description, the required flags and the main flags.

  If the command has few flags, returns its complete help.
  """
  own = config_flags.own_flags(flag_values)
  if len(own) <= _MAX_FLAGS_OF_SHORT_HELP:
    return complete_help(description, flag_values)
  required = [flag for flag in own if flag.setting.required]
  main = [flag for flag in own if flag.setting.main and flag not in required]
  return _join_sections(
    description,
    {"Required": required, "Main flags": main},
    lambda flag: entry(
      _name(flag), _shorten(_text(flag), "Default:", "Required unless")
    ),
    f"--help=all explains all {len(own)} flags, by topic.",
  )


def complete_help(
  description: str, flag_values: flags.FlagValues = flags.FLAGS
) -> str:
  """Returns the description and all flags by topic, required ones first."""

  def explain(flag: flags.Flag) -> str:
    text, allowed = _text(flag), flag.parser.syntactic_help
    name = _name(flag) + (_ORIGINAL if flag.setting.original else "")
    return entry(name, f"{text} ({allowed})" if allowed else text)

  own = config_flags.own_flags(flag_values)
  sections: dict[str, list[flags.Flag]] = {"Required": []}
  for flag in own:
    topic = "Required" if flag.setting.required else flag.setting.topic
    sections.setdefault(topic, []).append(flag)
  notes = ["--helpfull adds the flags of absl, such as --verbosity."]
  if any(flag.setting.original for flag in own):
    notes.insert(0, "* The original release has this flag, too.")
  return _join_sections(description, sections, explain, "\n".join(notes))


def _join_sections(
  description: str,
  sections: Mapping[str, Sequence[flags.Flag]],
  explain: Callable[[flags.Flag], str],
  end: str,
) -> str:
  texts = [adapt_examples(description)]
  for title, members in sections.items():
    if members:
      texts.append("\n".join([f"{title}:", *map(explain, members)]))
  return "\n\n".join([*texts, end])


def check_required(flag_values: flags.FlagValues = flags.FLAGS) -> None:
  """Raises ValueError that names all missing required flags.

  The command itself checks a flag with alternatives, since a file may replace
  it: a run in output_dir replaces --model.
  """
  own = config_flags.own_flags(flag_values)
  present = {flag.name for flag in own if flag.present}
  missing = [
    flag
    for flag in own
    if flag.setting.required
    and present.isdisjoint((flag.name, *flag.setting.alternatives))
  ]
  if all(flag.setting.alternatives for flag in missing):
    return
  names = ", ".join(
    " or ".join(f"--{n}" for n in (flag.name, *flag.setting.alternatives))
    for flag in missing
  )
  raise ValueError(f"these flags are missing: {names}; see --help.")


def _shorten(text: str, *starts: str) -> str:
  """The first sentence, and the others that begin with `starts`."""
  first, *others = re.split(r"(?<=[^.]\.) ", text)
  return " ".join([first, *(s for s in others if s.startswith(starts))])


def _name(flag: flags.Flag) -> str:
  name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
  with_choices = f"{name}={'|'.join(flag.setting.choices or ())}"
  is_listed = flag.setting.choices and len(with_choices) < _WIDTH - 2
  return with_choices if is_listed else name


def _text(flag: flags.Flag) -> str:
  text = flag.setting.help
  has_default = flag.default not in (None, "", [], ())
  if "Default:" in text or flag.setting.required or not has_default:
    return text
  value = flag.default_as_str.strip("'")
  return f"{text} Default: {value}."


def entry(name: str, text: str) -> str:
  """Formats a name and its text in two columns.

  A long name has a line of its own, above the text.
  """
  indent = " " * _TEXT_COLUMN
  text = textwrap.fill(
    text,
    _WIDTH,
    initial_indent=indent,
    subsequent_indent=indent,
    break_long_words=False,
    break_on_hyphens=False,
  )
  lead = f"  {name}  "
  if len(lead) > _TEXT_COLUMN:
    return f"{lead.rstrip()}\n{text}"
  return lead.ljust(_TEXT_COLUMN) + text.lstrip()


def adapt_examples(description: str) -> str:
  """Returns the description of a command.

  If a script runs, the examples in the description call this script.
  """
  text = description.strip()
  if not is_script():
    return text
  command = r"bert-tf [a-z-]+|python run_scripts/\w+\.py"
  return re.sub(command, f"python {sys.argv[0]}", text)
