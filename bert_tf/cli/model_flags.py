"""Flags of several commands: for the model, and for texts."""

import dataclasses

from bert_tf import settings
from bert_tf.cli import config_flags
from bert_tf.files import text_lines


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFlags:
  """The model; --model replaces the flags of its files."""

  model: str | None = settings.model(
    None,
    "The folder of the model, which may be a released model, the output_dir of "
    "a run, a SavedModel or a Hugging Face model; or the name of a model that "
    "bert-tf download got. It replaces the flags of the model's files.",
    reads="model",
    alternatives=("init_checkpoint", "bert_config_file"),
  )
  init_checkpoint: str | None = settings.model(
    None,
    "The initial checkpoint: its prefix, or a folder as for --model.",
    original=True,
    reads="model",
  )


def init_checkpoint(is_required: bool = False) -> dict[str, str | None]:
  """Returns the value of init_checkpoint, by this name.

  Raises ValueError if two models are named, or none that is required.
  """
  flags = config_flags.build(ModelFlags)
  model, start = flags.model, flags.init_checkpoint
  if model and start and model != start:
    raise ValueError(
      f"set either --model={model} or --init_checkpoint={start}."
    )
  if is_required and not (model or start):
    raise ValueError("set --model to the folder of a model.")
  return {"init_checkpoint": model or start}


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
