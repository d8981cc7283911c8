"""Predicts the words hidden by [MASK].

bert-tf fill-mask --model=out --text="It returns a [MASK]."
"""

import dataclasses

from bert_tf import settings, tokenization
from bert_tf.cli import command, config_flags, model_flags
from bert_tf.files import json_files, text_lines
from bert_tf.inference import config as inference_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillMaskConfig(inference_config.ModelFiles):
  """The model and the texts with masks."""

  do_lower_case: bool | None = settings.saved_setting(
    inference_config.ExtractionConfig, "do_lower_case"
  )
  text: tuple[str, ...] = settings.setting(
    (),
    "The text with [MASK]. Repeat the flag for several texts.",
    repeated=True,
    alternatives=("input_file",),
  )
  input_file: str | None = settings.setting(
    None,
    "The file of such texts, one a line, which may end in .gz. Blank lines are "
    "skipped, and the output is JSON lines.",
    reads="file",
  )
  top_k: int = settings.setting(5, "The predictions for each mask.", minimum=1)


@command.of(FillMaskConfig, model_flags.ModelFlags)
def run() -> None:
  """Fills the masks of the texts or of the file."""
  from bert_tf.inference import predictor

  config = config_flags.build(FillMaskConfig, **model_flags.require_model())
  if bool(config.text) == bool(config.input_file):
    raise ValueError("set either --text or --input_file.")
  texts = list(config.text)
  if config.input_file:
    lines = text_lines.read_lines(config.input_file)
    texts = [line for line in lines if line.strip()]
    if not texts:
      raise ValueError(f"{config.input_file} has no text.")
  pretrained = inference_config.ModelConfig(
    init_checkpoint="", task="pretraining"
  )
  model = predictor.Predictor(
    settings.replace_values(pretrained, settings.values(config))
  )
  for text, answer in zip(texts, model.predict(texts)):
    if config.input_file:
      command.show(json_files.encode({"text": text, **answer}))
      continue
    command.show(text)
    for i, mask in enumerate(answer["masks"], start=1):
      print(f"  {tokenization.MASK} {i}:")
      for guess in mask:
        command.show(f"    {guess['probability']:.4f}  {guess['token']}")
