"""Records of multiple-choice examples."""

from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline, packing, record_cache, records
from bert_tf.tasks.swag.examples import ChoiceExample

# Number of examples of each file whose word pieces are logged.
_NUM_LOGGED = 2


def spec(max_seq_length: int, num_choices: int) -> input_pipeline.Spec:
  """Returns the features of a record of C choices: names, shapes, dtypes."""
  return {
    **input_pipeline.inputs_spec(num_choices, max_seq_length),
    "label_ids": tf.io.FixedLenFeature([1], tf.int64),
    "is_real_example": tf.io.FixedLenFeature([1], tf.int64),
  }


def convert_example(
  example: ChoiceExample,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
) -> tuple[bytes, bool]:
  """Returns the record of an example, and whether an input is cut.

  The record is a serialized `tf.train.Example` with the features of `spec`.
  Input i is [CLS] context [SEP] question choice_i [SEP], cut as every pair is:
  from the end of the longer text. Without a label, label_ids is 0.
  """
  is_cut = False
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  ids_a = tokenizer.tokenize_to_ids(example.context)
  ints = {"label_ids": [example.label or 0], "is_real_example": [1]}
  for text_b in example.continuations():
    ids_b = tokenizer.tokenize_to_ids(text_b)
    is_cut |= packing.is_cut(ids_a, ids_b, max_seq_length)
    packed = packing.build_input(ids_a, ids_b, cls_id, sep_id, max_seq_length)
    for name, values in packed.items():
      ints.setdefault(name, []).extend(values)  # [C*F] after all choices.
  return records.encode_example(records.encode_features(ints, {})), is_cut


def write_records(
  path: str,
  examples: Sequence[ChoiceExample],
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
) -> input_pipeline.RecordFiles:
  """Writes a record for each example, unless the records exist already."""
  settings = {
    "examples": record_cache.content_hash(
      [(e.context, e.continuations(), e.label) for e in examples]
    ),
    **record_cache.tokenizer_settings(tokenizer),
    "max_seq_length": max_seq_length,
  }

  def write_all(writer: records.RecordWriter) -> int:
    num_cut = 0
    for index, example in enumerate(examples):
      if index < _NUM_LOGGED:
        _log(example, tokenizer)
      record, is_cut = convert_example(example, tokenizer, max_seq_length)
      num_cut += is_cut
      writer.write(record)
    return num_cut

  return record_cache.write(path, settings, write_all)


def _log(example: ChoiceExample, tokenizer: tokenization.FullTokenizer) -> None:
  """Logs the word pieces of an example; a star marks the right choice."""
  context = " ".join(tokenizer.tokenize(example.context))
  for i, text in enumerate(example.continuations()):
    pieces = " ".join(tokenizer.tokenize(text))
    mark = "*" if i == example.label else " "
    logging.info("%s %s %s [SEP] %s", example.guid, mark, context, pieces)
