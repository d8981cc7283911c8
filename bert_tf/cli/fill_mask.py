"""Predicts the words behind [MASK]."""

import dataclasses
import json

from bert_tf import settings, tokenization
from bert_tf.cli import command, config_flags
from bert_tf.data import corpus


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillMaskConfig:
  """The model, and the texts with masks."""

  bert_config_file: str = settings.setting(
    help="JSON file with the sizes of the model."
  )
  vocab_file: str = settings.setting(help="The vocabulary of the model.")
  init_checkpoint: str = settings.setting(
    help="A checkpoint of run_pretraining.py."
  )
  do_lower_case: bool = settings.setting(
    True, "Whether the model is for lower-cased text."
  )
  text: tuple[str, ...] = settings.setting(
    (), "A text with [MASK] in it; may be given several times.", repeated=True
  )
  input_file: str | None = settings.setting(
    None, "A file with such a text a line; prints JSON lines."
  )
  top_k: int = settings.setting(5, "Predictions for each mask.", minimum=1)


def main() -> None:
  """Fills the masks of the texts or of the file."""
  from bert_tf.inference import fill_mask

  config = config_flags.build(FillMaskConfig)
  if bool(config.text) == bool(config.input_file):
    raise ValueError("set either --text or --input_file.")
  texts = list(config.text)
  if config.input_file:
    texts += corpus.read_lines(config.input_file)
  filler = fill_mask.MaskFiller(
    config.bert_config_file,
    config.vocab_file,
    config.init_checkpoint,
    config.do_lower_case,
  )
  for text, masks in zip(texts, filler.fill(texts, config.top_k)):
    if config.input_file:
      found = [[dataclasses.asdict(p) for p in mask] for mask in masks]
      print(json.dumps({"text": text, "masks": found}, ensure_ascii=False))
      continue
    print(text)
    for i, mask in enumerate(masks, start=1):
      print(f"  {tokenization.MASK} {i}:")
      for prediction in mask:
        print(f"    {prediction.probability:.4f}  {prediction.token}")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(FillMaskConfig)
  command.run(main, __doc__)
