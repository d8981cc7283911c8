"""Tests for feature extraction: recorded features, formats and streaming."""

import dataclasses
import itertools
import json
import os
import pathlib

import numpy as np
import pytest

import bert_tf
from bert_tf import modeling, tokenization
from bert_tf.inference import config as inference_config
from bert_tf.inference import feature_extraction
from bert_tf.model import heads
from tests.support import tiny_models

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "tiny_perturbed"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
LINES = [
  "the church in october ||| was the last of its songs",
  "a single sentence",
  "",
  "flight 18 of 1988 , and much more of the same kind of life",
  "few ||| songs",
]
TEXTS = [feature_extraction.parse_line(line) for line in LINES]


# Defaults of the original's flags (behaviour.md).
CHECKPOINT = str(MODEL / "bert_model.ckpt")
SETTINGS = {
  "bert_config_file": str(MODEL / "bert_config.json"),
  "vocab_file": str(VOCAB),
  "layers": (-1, 0),
  "max_seq_length": 24,
  "batch_size": 2,
}


def make(**settings):
  return bert_tf.FeatureExtractor(CHECKPOINT, **{**SETTINGS, **settings})


def extracted(texts, **settings):
  return list(make(**settings).extract(texts))


def write_features(source, output, output_format="jsonl", **settings):
  config = inference_config.ExtractionConfig(
    init_checkpoint=CHECKPOINT, **{**SETTINGS, **settings}
  )
  arguments = config, str(source), str(output), output_format
  return feature_extraction.extract_file(*arguments)


@pytest.fixture(scope="module")
def alone():
  """Returns a function that runs the model on a single text, unpadded."""
  model = modeling.BertModel.from_pretrained(MODEL)
  tokenizer = tokenization.FullTokenizer(str(VOCAB))

  def run(text):
    parts = (text,) if isinstance(text, str) else text
    tokens, segments = ["[CLS]"], [0]
    for segment, part in enumerate(parts):
      added = [*tokenizer.tokenize(part), "[SEP]"]
      tokens += added
      segments += [segment] * len(added)
    ids = tokenizer.convert_tokens_to_ids(tokens)
    output = model({"input_ids": [ids], "segment_ids": [segments]})
    vectors = [output.all_encoder_layers[i][0] for i in (1, 0)]
    return tokens, np.stack(vectors)

  return run


def test_the_script_gives_the_originals_features(shared, tmp_path, run_script):
  recordings = shared / "golden" / "e2e"
  result = run_script(
    "extract_features.py",
    f"--input_file={recordings / 'extract_input.txt'}",
    "--output_file=out.jsonl",
    f"--bert_config_file={MODEL / 'bert_config.json'}",
    f"--init_checkpoint={CHECKPOINT}",
    f"--vocab_file={VOCAB}",
    "--layers=-1,-2",
    "--max_seq_length=24",
    "--batch_size=3",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  assert result.stdout == "out.jsonl: features of 8 lines\n"
  ours, theirs = (
    [json.loads(line) for line in path.read_text().splitlines()]
    for path in (tmp_path / "out.jsonl", recordings / "extract_output.jsonl")
  )
  assert len(ours) == 8
  for content, recorded in zip(ours, theirs, strict=True):
    assert list(content) == list(recorded)
    assert content["linex_index"] == recorded["linex_index"]
    pairs = zip(content["features"], recorded["features"], strict=True)
    for token, other in pairs:
      assert list(token) == list(other)
      assert token["token"] == other["token"]
      assert [v["index"] for v in token["layers"]] == [-1, -2]
      values, expected = (
        [v["values"] for v in each["layers"]] for each in (token, other)
      )
      np.testing.assert_allclose(values, expected, atol=1e-5)


POOLED = {
  "none": lambda vectors: vectors,
  "cls": lambda vectors: vectors[:, 0],
  "mean": lambda vectors: vectors.mean(axis=1),
  "max": lambda vectors: vectors.max(axis=1),
}


@pytest.mark.parametrize(
  ("batch_size", "pooling"),
  [(1, "none"), (2, "none"), *((32, pooling) for pooling in POOLED)],
)
def test_features_do_not_depend_on_the_batch(alone, batch_size, pooling):
  results = extracted(TEXTS, batch_size=batch_size, pooling=pooling)
  assert len(results) == len(TEXTS)
  for text, features in zip(TEXTS, results):
    tokens, vectors = alone(text)
    assert features.tokens == tuple(tokens)
    # Padding changes the order of additions.
    expected = POOLED[pooling](vectors)
    np.testing.assert_allclose(features.vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
  ("line", "expected"),
  [
    ("  a b \r", "a b"),
    ("a ||| b", ("a", "b")),
    ("a ||| b ||| c", ("a ||| b", "c")),
    ("a ||| ||| b", ("a |||", "b")),
    (" ||| a", "||| a"),
    ("a ||| ", "a |||"),
    ("a|||b", "a|||b"),
    (" ", ""),
  ],
)
def test_a_line_is_a_text_or_a_pair(line, expected):
  assert feature_extraction.parse_line(line) == expected


def test_long_texts_are_truncated_and_empty_texts_kept():
  long, pair, blank, half = extracted(
    ["the " * 9, ("the " * 9, "songs " * 9), "", ("the", "\u200b")],
    max_seq_length=7,
  )
  assert long.tokens == ("[CLS]", *["the"] * 5, "[SEP]")
  songs = ("songs", "songs", "[SEP]")
  assert pair.tokens == ("[CLS]", "the", "the", "[SEP]", *songs)
  assert blank.tokens == ("[CLS]", "[SEP]")
  # As in the original, a second text without tokens is ignored.
  assert half.tokens == ("[CLS]", "the", "[SEP]")


def test_at_most_a_batch_is_read_ahead():
  extractor = make(batch_size=3)
  counter = itertools.count()
  texts = (f"the {next(counter)}" for _ in range(100))
  features = extractor.extract(texts)
  for _ in range(4):
    next(features)
  assert next(counter) == 6


def extract(tmp_path, output_format="jsonl", **settings):
  """Extracts features of LINES and returns the output file."""
  source, output = tmp_path / "in.txt", tmp_path / f"out.{output_format}"
  source.write_text("".join(f"{line}\n" for line in LINES))
  num_lines = write_features(source, output, output_format, **settings)
  assert num_lines == len(LINES)
  return output


def test_pooled_json_has_a_vector_per_layer(tmp_path, alone):
  path = extract(tmp_path, pooling="mean")
  for index, line in enumerate(path.read_text().splitlines()):
    result = json.loads(line)
    assert list(result) == ["linex_index", "layers"]
    assert result["linex_index"] == index
    assert [layer["index"] for layer in result["layers"]] == [-1, 0]
    values = [layer["values"] for layer in result["layers"]]
    assert all(value == round(value, 6) for value in values[0])
    _, vectors = alone(TEXTS[index])
    np.testing.assert_allclose(values, vectors.mean(axis=1), atol=1e-5)


def test_an_npz_has_arrays_of_each_line_or_one_of_pooled_vectors(
  tmp_path, alone
):
  path = extract(tmp_path, "npz")
  with np.load(path) as arrays:  # Refuses pickles.
    names = [
      f"{name}_{i}"
      for i in range(len(LINES))
      for name in ("tokens", "features")
    ]
    assert arrays.files == ["layers", *names]
    assert arrays["layers"].tolist() == [-1, 0]
    for index, text in enumerate(TEXTS):
      tokens, vectors = alone(text)
      assert arrays[f"tokens_{index}"].tolist() == tokens
      features = arrays[f"features_{index}"]
      assert features.dtype == np.float32
      np.testing.assert_allclose(features, vectors, atol=1e-5)
  pooled = extract(tmp_path, "npz", pooling="max")
  expected = [alone(text)[1].max(axis=1) for text in TEXTS]
  with np.load(pooled) as arrays:
    assert arrays.files == ["layers", "features"]
    assert arrays["features"].dtype == np.float32
    np.testing.assert_allclose(arrays["features"], expected, atol=1e-5)


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    ({"layers": (-1, 2)}, "layer 2: .*bert_config.json has 2 layers"),
    ({"layers": (-3,)}, "layer -3"),
    (
      {"max_seq_length": 129},
      "max_seq_length 129 .*max_position_embeddings 128",
    ),
    ({"batch_size": 0}, "max_batch_size 0"),
    ({"doc_stride": 3}, "doc_stride 3 .*encoder"),
    ({"pooling": "median"}, "pooling 'median' .*mean, cls, max"),
  ],
)
def test_an_invalid_setting_is_named(settings, expected):
  with pytest.raises(ValueError, match=expected):
    make(**settings)


def test_a_pair_needs_a_model_with_two_segments(tmp_path):
  single = dataclasses.replace(tiny_models.CONFIG, type_vocab_size=1)
  model = heads.ClassifierModel(single, num_labels=2)
  model.save_pretrained(tmp_path / "m", str(VOCAB), labels=["a", "b"])
  extractor = bert_tf.FeatureExtractor(tmp_path / "m")
  for predictor in (extractor, bert_tf.load(tmp_path / "m")):
    predictor.predict("the song")
    with pytest.raises(ValueError, match="segment_ids .*type_vocab_size"):
      predictor.predict(("the song", "a film"))


def test_the_lines_of_a_pipe_are_extracted(tmp_path):
  reader, writer = os.pipe()
  os.write(writer, b"a\nb\n")
  os.close(writer)
  output = tmp_path / "out.jsonl"
  assert write_features(f"/dev/fd/{reader}", output) == 2
  os.close(reader)
  assert len(output.read_text().splitlines()) == 2


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    (None, "in.txt"),
    (b"", "in.txt is empty"),
    (b"a\nb\xffd\n", "in.txt:2: .*UTF-8"),
  ],
)
def test_a_bad_input_is_named_and_nothing_is_written(
  tmp_path, content, expected
):
  path = tmp_path / "in.txt"
  if content is not None:
    path.write_bytes(content)
  with pytest.raises((ValueError, OSError), match=expected):
    write_features(path, tmp_path / "out.jsonl")
  assert not list(tmp_path.glob("out*"))
