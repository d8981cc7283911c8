"""Flags that give texts: on the command line or in a file."""

import dataclasses

from bert_tf import settings
from bert_tf.cli import config_flags
from bert_tf.files import text_lines


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFlags:
  """The texts of a command."""

  text: tuple[str, ...] = settings.setting(
    (),
    "A text. Repeat the flag for several texts.",
    repeated=True,
    alternatives=("input_file",),
  )
  input_file: str | None = settings.setting(
    None,
    "The file of texts, one a line, which may end in .gz. Blank lines are "
    "skipped.",
    reads="file",
  )

  def read_texts(self) -> dict[str, str]:
    """Returns the texts by the names that messages give them.

    Raises ValueError unless there are texts from one of the flags.
    """
    config_flags.require_one("text", "input_file")
    if not (path := self.input_file):
      return {f"row {i}": text for i, text in enumerate(self.text)}
    lines = enumerate(text_lines.read_lines(path), start=1)
    texts = {f"{path}:{i}": line for i, line in lines if line.strip()}
    if not texts:
      raise ValueError(f"{path} has no text.")
    return texts
