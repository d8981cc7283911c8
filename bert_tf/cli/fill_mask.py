"""Predicts the words behind [MASK]."""

import dataclasses
import json

from absl import flags

from bert_tf import tokenization
from bert_tf.cli import command
from bert_tf.data import corpus
from bert_tf.inference import fill_mask

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "bert_config_file", None, "JSON file with the sizes of the model."
)
flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
flags.DEFINE_string(
  "init_checkpoint", None, "A checkpoint of run_pretraining.py."
)
flags.DEFINE_bool(
  "do_lower_case", True, "Whether the model is for lower-cased text."
)
flags.DEFINE_multi_string(
  "text", [], "A text with [MASK] in it; may be given several times."
)
flags.DEFINE_string(
  "input_file", None, "A file with such a text a line; prints JSON lines."
)
flags.DEFINE_integer("top_k", 5, "Predictions a mask.", lower_bound=1)


def main() -> None:
  """Fills the masks of the texts or of the file."""
  if bool(FLAGS.text) == bool(FLAGS.input_file):
    raise ValueError("set either --text or --input_file.")
  texts = FLAGS.text or list(corpus.read_lines(FLAGS.input_file))
  filler = fill_mask.MaskFiller(
    FLAGS.bert_config_file,
    FLAGS.vocab_file,
    FLAGS.init_checkpoint,
    FLAGS.do_lower_case,
  )
  for text, masks in zip(texts, filler.fill(texts, FLAGS.top_k)):
    if FLAGS.input_file:
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
  for name in ("bert_config_file", "vocab_file", "init_checkpoint"):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
