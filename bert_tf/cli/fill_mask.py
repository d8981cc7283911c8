"""Predicts the words hidden by [MASK].

bert-tf fill-mask --model=out --text="It returns a [MASK]."
"""

import dataclasses

from bert_tf import settings, tokenization
from bert_tf.cli import command, model_flags
from bert_tf.files import json_files
from bert_tf.inference import config as inference_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillMaskConfig(inference_config.ModelFiles, model_flags.TextFlags):
  """The model and the texts with masks. Those of a file give JSON lines."""

  do_lower_case: bool | None = settings.saved_setting(
    inference_config.ExtractionConfig, "do_lower_case"
  )
  top_k: int = settings.setting(5, "The predictions for each mask.", minimum=1)


@command.of(FillMaskConfig, needs_model=True)
def run(config: FillMaskConfig) -> None:
  """Fills the masks of the texts or of the file."""
  from bert_tf.inference import predictor

  texts = [*config.read_texts().values()]
  files = config.open(
    task="pretraining", do_lower_case=config.do_lower_case, top_k=config.top_k
  )
  model = predictor.Predictor(files)
  for text, answer in zip(texts, model.predict(texts)):
    if config.input_file:
      command.show(json_files.encode({"text": text, **answer}))
      continue
    command.show(text)
    for i, mask in enumerate(answer["masks"], start=1):
      print(f"  {tokenization.MASK} {i}:")
      for guess in mask:
        command.show(f"    {guess['probability']:.4f}  {guess['token']}")
