"""Flags that name a model: one folder, or the original's three files."""

import dataclasses

from absl import flags

from bert_tf import settings
from bert_tf.cli import config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFlags:
  """The model; --model replaces the other flags."""

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
  bert_config_file: str | None = settings.model(
    None,
    "The model's sizes. Default: bert_config.json next to the checkpoint.",
    original=True,
    reads="file",
  )
  vocab_file: str | None = settings.model(
    None,
    "The model's vocabulary. Default: vocab.txt next to the checkpoint.",
    original=True,
    reads="file",
  )


def _read() -> dict[str, str | None]:
  values = dataclasses.asdict(config_flags.build(ModelFlags))
  model, start = values.pop("model"), values["init_checkpoint"]
  if model and start and model != start:
    raise ValueError(
      f"set either --model={model} or --init_checkpoint={start}."
    )
  return {**values, "init_checkpoint": model or start}


def require_model() -> dict[str, str | None]:
  """Returns init_checkpoint, bert_config_file and vocab_file as given.

  Raises:
    ValueError: if no model is named, or two.
  """
  values = _read()
  if not values["init_checkpoint"]:
    raise ValueError("set --model to the folder of a model.")
  return values


def resolve_files(needs_vocab: bool = True) -> dict[str, str | None]:
  """Returns init_checkpoint, bert_config_file and vocab_file as paths.

  If no model is named, config and vocabulary are those of the run in
  --output_dir, if there is one.

  Raises:
    ValueError: as `model_folder.read`, or if a needed file is not known.
  """
  from bert_tf import model_folder

  values, output_dir = _read(), flags.FLAGS.output_dir
  start = values.pop("init_checkpoint")
  needed = ("bert_config_file", "vocab_file")[: 1 + needs_vocab]
  files = None
  if start:
    files = model_folder.read(start, **values)
    start = files.weights
  elif not all(values[name] for name in needed):
    if model_folder.has_config(output_dir):
      files = model_folder.read_beside(output_dir, **values)
  if files:
    values["bert_config_file"] = files.config_file
    if needs_vocab:
      values["vocab_file"] = files.needed_vocab()
    elif config_flags.is_given("model"):
      values["vocab_file"] = files.vocab_file
  if missing := [f"--{name}" for name in needed if not values[name]]:
    raise ValueError(
      f"set --model to the folder of a model, or set {' and '.join(missing)}."
    )
  return {**values, "init_checkpoint": start}
