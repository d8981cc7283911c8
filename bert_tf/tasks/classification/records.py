"""Records of classification examples, and batches of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline, packing, record_cache, records
from bert_tf.model_folder import run_info
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.classification.examples import InputExample

# Number of examples of each file whose word pieces are logged.
_NUM_LOGGED = 2

# Keep the first 128 and the last 382 of 510 word pieces: the best method in the
# comparison of Sun et al. 2019 (arXiv 1905.05583, 5.3.1).
_HEAD, _WHOLE = 128, 510


def convert_example(
  example: InputExample,
  spec: run_info.LabelSpec,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  long_text: str = "truncate",
) -> tuple[list[bytes], bool]:
  """Returns the records of an example, and whether it exceeds one input.

  Each record is a serialized `tf.train.Example` with the features of
  input_pipeline.classifier_spec. There is one record, except for a single text
  that is read in windows: then each window has the label. Without a label, as
  in a test file, label_ids are zeros.
  """
  ids_b = None
  if example.text_b is not None:
    ids_b = tokenizer.tokenize_to_ids(example.text_b)
  ids_a = tokenizer.tokenize_to_ids(example.text_a)
  windows: list[Sequence[int]] = [ids_a]
  if ids_b is None:
    windows = cut_windows(ids_a, max_seq_length - 2, long_text)
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  labels = {"label_ids": label_ids([example], spec)[0].tolist()}
  ints: dict[str, list[int]] = {"is_real_example": [1]}
  if spec.problem_type == "regression":
    label_features = records.encode_features(ints, labels)
  else:
    label_features = records.encode_features(ints | labels, {})
  encoded = []
  for window in windows:
    packed = packing.build_input(window, ids_b, cls_id, sep_id, max_seq_length)
    # Joined encodings are one encoding of all features.
    ids_features = records.encode_features(packed, {})
    encoded.append(records.encode_example(ids_features + label_features))
  return encoded, packing.is_cut(ids_a, ids_b, max_seq_length)


def num_windows(
  data: Sequence[InputExample],
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  long_text: str,
) -> list[int]:
  """Returns the number of records of each example; see `convert_example`."""
  if long_text != "windows":
    return [1] * len(data)
  texts = (tokenizer.tokenize_to_ids(example.text_a) for example in data)
  room = max_seq_length - 2
  return [len(cut_windows(ids, room, long_text)) for ids in texts]


def write_records(
  path: str,
  data: Sequence[InputExample],
  spec: run_info.LabelSpec,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  long_text: str = "truncate",
) -> input_pipeline.RecordFiles:
  """Writes the records of examples, unless they exist already.

  long_text is one of config.LONG_TEXT_MODES.
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

  def write_all(writer: records.RecordWriter) -> int:
    num_cut = 0
    for index, example in enumerate(data):
      if index < _NUM_LOGGED:
        texts = [text for text in (example.text_a, example.text_b) if text]
        pieces = " [SEP] ".join(" ".join(tokenizer.tokenize(t)) for t in texts)
        logging.info("%s: %s -> %s", example.guid, pieces, example.label)
      encoded, is_cut = convert_example(
        example, spec, tokenizer, max_seq_length, long_text
      )
      num_cut += is_cut
      for record in encoded:
        writer.write(record)
    return num_cut

  return record_cache.write(path, settings, write_all)


def batches(
  spec: run_info.LabelSpec, max_seq_length: int, vocab_size: int
) -> batches_lib.Batches:
  """Returns a builder of batches that are padded to their longest input."""
  record_spec = input_pipeline.classifier_spec(
    max_seq_length, spec.num_outputs, spec.problem_type
  )
  return batches_lib.dynamic_padding(record_spec, vocab_size, max_seq_length)


def label_ids(
  data: Sequence[InputExample], spec: run_info.LabelSpec
) -> np.ndarray:
  """Returns label_ids of examples; zeros for an unknown label.

  Returns:
    int32 [B, 1], the classes; float32 [B, 1], the numbers of a regression; or
    int32 [B, C] in multilabel, 1 for each applicable label.
  """
  labels: list[Any] = [example.label for example in data]
  if spec.problem_type == "regression":
    return np.array([[label or 0.0] for label in labels], np.float32)
  if spec.problem_type == "multilabel":
    rows = [[name in (label or ()) for name in spec.labels] for label in labels]
    return np.array(rows, np.int32)
  ids = {name: i for i, name in enumerate(spec.labels)}
  return np.array([[0 if x is None else ids[x]] for x in labels], np.int32)


def cut_windows(
  ids: Sequence[int], room: int, long_text: str
) -> list[Sequence[int]]:
  """Cuts a text into windows.

  Args:
    ids: word pieces of the text.
    room: maximum number of word pieces of a window.
    long_text: one of config.LONG_TEXT_MODES. "head_tail" keeps the first
      room * 128 / 510 pieces, rounded down, and fills the rest with the last
      pieces. "windows" returns windows that start room / 2 pieces apart; the
      last one ends with the text.

  Returns:
    One window; several only for "windows" and a text that is too long.
  """
  if len(ids) <= room:
    return [ids]
  if long_text == "head_tail":
    head = room * _HEAD // _WHOLE
    return [[*ids[:head], *ids[len(ids) - room + head :]]]
  if long_text == "windows":
    last = len(ids) - room
    starts = [*range(0, last, max(1, room // 2)), last]
    return [ids[start : start + room] for start in starts]
  return [ids[:room]]


def mean_over_windows(
  logits: np.ndarray, num_windows: Sequence[int]
) -> np.ndarray:
  """Returns the mean logits of each example's windows, float32 [B, C].

  Args:
    logits: float32 [R, C], example by example.
    num_windows: int [B], at least 1. The number of windows of each example;
      their sum is R.
  """
  counts = np.asarray(num_windows)
  totals = np.add.reduceat(logits, np.cumsum(counts) - counts, axis=0)
  return totals / counts.astype(logits.dtype)[:, None]
