"""Examples to classify as records, made once, and as batches."""

from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline, packing, record_cache, records
from bert_tf.tasks import label_map
from bert_tf.tasks.classification import long_texts
from bert_tf.tasks.classification.examples import InputExample

# Examples of each file that are logged as the model sees them.
_NUM_LOGGED = 5


def convert_example(
  example: InputExample,
  spec: label_map.LabelSpec,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  long_text: str = "truncate",
) -> list[bytes]:
  """Returns the serialized `tf.train.Example` of each window of one example.

  That is one, but for a single text that is read in windows; each has the
  label. Their features are those of input_pipeline.classifier_spec. Without a
  label, as in a test file, label_ids hold the first label, 0 or none.
  """
  ids_b = None
  if example.text_b is not None:
    ids_b = tokenizer.tokenize_to_ids(example.text_b)
  ids_a = tokenizer.tokenize_to_ids(example.text_a)
  windows = [ids_a]
  if ids_b is None:
    windows = long_texts.windows(ids_a, max_seq_length - 2, long_text)
  marks = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  ints, floats = {"is_real_example": [1]}, {}
  label = example.label
  if spec.problem_type == "regression":
    floats["label_ids"] = [label or 0.0]
  elif spec.problem_type == "multilabel":
    ints["label_ids"] = [int(name in (label or ())) for name in spec.labels]
  else:
    ints["label_ids"] = [0 if label is None else spec.labels.index(label)]
  label_features = records.encode_features(ints, floats)
  encoded = []
  for window in windows:
    packed = packing.pack(window, ids_b, *marks, max_seq_length)
    # Joined encodings are one encoding of all features.
    ids_features = records.encode_features(packed, {})
    encoded.append(records.encode_example(ids_features + label_features))
  return encoded


def num_windows(
  data: Sequence[InputExample],
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  long_text: str,
) -> list[int]:
  """Returns how many records `convert_example` makes of each example."""
  if long_text != "windows":
    return [1] * len(data)
  texts = (tokenizer.tokenize_to_ids(example.text_a) for example in data)
  room = max_seq_length - 2
  return [len(long_texts.windows(ids, room, long_text)) for ids in texts]


def write_records(
  path: str,
  data: Sequence[InputExample],
  spec: label_map.LabelSpec,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  long_text: str = "truncate",
) -> input_pipeline.RecordFiles:
  """Writes the records of examples, unless they are there already.

  Args:
    path: TFRecord file to write.
    data: what to convert, in this order.
    spec: the labels of the model.
    tokenizer: of the model's vocabulary.
    max_seq_length: word pieces a record.
    long_text: one of long_texts.MODES, what becomes of longer texts.
  """
  settings = {
    "examples": record_cache.content_hash(
      [(e.text_a, e.text_b, e.label) for e in data]
    ),
    **record_cache.tokenizer_settings(tokenizer),
    "max_seq_length": max_seq_length,
    "problem_type": spec.problem_type,
    "labels": spec.labels,
    "long_text": long_text,
  }

  def write_all(writer: records.RecordWriter) -> None:
    for index, example in enumerate(data):
      if index < _NUM_LOGGED:
        texts = [text for text in (example.text_a, example.text_b) if text]
        pieces = " [SEP] ".join(" ".join(tokenizer.tokenize(t)) for t in texts)
        logging.info("%s: %s -> %s", example.guid, pieces, example.label)
      for record in convert_example(
        example, spec, tokenizer, max_seq_length, long_text
      ):
        writer.write(record)

  return record_cache.write(path, settings, write_all)


def _spec(
  spec: label_map.LabelSpec, max_seq_length: int
) -> input_pipeline.Spec:
  return input_pipeline.classifier_spec(
    max_seq_length, spec.num_outputs, spec.problem_type
  )


def training_batches(
  files: input_pipeline.RecordFiles,
  spec: label_map.LabelSpec,
  max_seq_length: int,
  batch_size: int,
  seed: int,
  steps_done: int,
  vocab_size: int,
  group_by_length: bool,
) -> tf.data.Dataset:
  """Returns endless shuffled batches, cut to their longest example.

  Args and errors are those of input_pipeline.training_dataset.
  """
  batches = input_pipeline.training_dataset(
    files,
    _spec(spec, max_seq_length),
    batch_size,
    seed,
    steps_done,
    vocab_size,
    group_by_length,
  )
  return input_pipeline.cut_padding(batches, max_seq_length)


def batches_once(
  files: input_pipeline.RecordFiles,
  spec: label_map.LabelSpec,
  max_seq_length: int,
  batch_size: int,
  vocab_size: int,
) -> tf.data.Dataset:
  """Returns every example once, in order, in batches that are cut."""
  batches = input_pipeline.finite_dataset(
    files, _spec(spec, max_seq_length), batch_size, vocab_size
  )
  return input_pipeline.cut_padding(batches, max_seq_length)
