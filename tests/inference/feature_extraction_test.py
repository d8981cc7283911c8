"""Features of tokens and of texts: recorded ones, layouts, streaming."""

import itertools
import json
import pathlib
import shutil
import weakref
import xml.etree.ElementTree
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints, modeling, tokenization
from bert_tf.inference import config as inference_config
from bert_tf.inference import feature_extraction

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "tiny_perturbed"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
K, N, D = 2, 2, 32
LINES = [
  "the church in october ||| was the last of its songs",
  "a single sentence",
  "",
  "flight 18 of 1988 , and much more of the same kind of life",
  "few ||| songs",
]
TEXTS = [feature_extraction.parse_line(line) for line in LINES]

# What the original's flags are by default (behaviour.md).
DEFAULTS = {
  "input_file": None,
  "output_file": None,
  "layers": "-1,-2,-3,-4",
  "bert_config_file": None,
  "max_seq_length": "128",
  "init_checkpoint": None,
  "vocab_file": None,
  "do_lower_case": "None",  # The run or the vocabulary decides.
  "batch_size": "32",
  "use_tpu": "false",
  "master": None,
  "num_tpu_cores": "8",
  "use_one_hot_embeddings": "false",
}


def config(**settings):
  given = {
    "bert_config_file": str(MODEL / "bert_config.json"),
    "vocab_file": str(VOCAB),
    "init_checkpoint": str(MODEL / "bert_model.ckpt"),
    "layers": (-1, 0),
    "max_seq_length": 24,
    "batch_size": 2,
    **settings,
  }
  return inference_config.ExtractionConfig(**given)


def extracted(texts, **settings):
  extractor = feature_extraction.FeatureExtractor(config(**settings))
  return list(extractor.extract(texts))


@pytest.fixture(scope="module")
def alone():
  """A function that runs the model on one text, unpadded, without batches."""
  bert_config = modeling.BertConfig.from_json_file(
    str(MODEL / "bert_config.json")
  )
  model = modeling.BertModel(bert_config)
  checkpoints.init_from_checkpoint(model, str(MODEL / "bert_model.ckpt"))
  tokenizer = tokenization.FullTokenizer(str(VOCAB))

  def run(text):
    parts = (text,) if isinstance(text, str) else text
    tokens, segments = ["[CLS]"], [0]
    for segment, part in enumerate(parts):
      added = [*tokenizer.tokenize(part), "[SEP]"]
      tokens += added
      segments += [segment] * len(added)
    ids = tokenizer.convert_tokens_to_ids(tokens)
    output = model(
      {"input_ids": np.array([ids]), "segment_ids": np.array([segments])},
      return_attention_probs=True,
    )
    vectors = [output.all_encoder_layers[i][0] for i in (1, 0)]
    probs = [output.attention_probs[i][0] for i in (1, 0)]
    return tokens, np.stack(vectors), np.stack(probs)

  return run


def test_the_script_gives_the_originals_features(shared, tmp_path, run_script):
  recordings = shared / "golden" / "e2e"
  result = run_script(
    "extract_features.py",
    f"--input_file={recordings / 'extract_input.txt'}",
    "--output_file=out.jsonl",
    f"--bert_config_file={MODEL / 'bert_config.json'}",
    f"--init_checkpoint={MODEL / 'bert_model.ckpt'}",
    f"--vocab_file={VOCAB}",
    "--layers=-1,-2",
    "--max_seq_length=24",
    "--batch_size=3",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  ours = (tmp_path / "out.jsonl").read_text().splitlines()
  theirs = (recordings / "extract_output.jsonl").read_text().splitlines()
  assert len(ours) == len(theirs) == 8
  assert result.stdout == "out.jsonl: the features of 8 lines\n"
  for line, recorded_line in zip(ours, theirs):
    found, recorded = json.loads(line), json.loads(recorded_line)
    assert list(found) == list(recorded)
    assert found["linex_index"] == recorded["linex_index"]
    tokens = [token["token"] for token in found["features"]]
    assert tokens == [token["token"] for token in recorded["features"]]
    for token, other in zip(found["features"], recorded["features"]):
      assert list(token) == list(other)
      assert [v["index"] for v in token["layers"]] == [-1, -2]
      np.testing.assert_allclose(
        [v["values"] for v in token["layers"]],
        [v["values"] for v in other["layers"]],
        atol=1e-5,
      )


def test_the_flags_are_the_originals(tmp_path, run_script):
  result = run_script("extract_features.py", "--helpxml", cwd=tmp_path)
  found = {
    flag.findtext("name"): flag.findtext("default")
    for flag in xml.etree.ElementTree.fromstring(result.stdout).iter("flag")
  }
  assert {name: found[name] or None for name in DEFAULTS} == DEFAULTS


def test_devices_that_cannot_be_had_are_refused(tmp_path, run_script):
  needed = ("input_file", "output_file", "bert_config_file", "vocab_file")
  result = run_script(
    "extract_features.py",
    *(f"--{name}=x" for name in (*needed, "init_checkpoint")),
    "--use_tpu",
    "--master=grpc://host",
    cwd=tmp_path,
  )
  assert result.returncode == 1
  assert result.stderr.splitlines()[-1].startswith(
    "extract_features.py: error: --use_tpu, --master cannot be honoured"
  )


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_a_batch_gives_each_text_what_it_gets_alone(alone, batch_size):
  found = extracted(TEXTS, batch_size=batch_size, attention_probs=True)
  assert len(found) == len(TEXTS)
  for text, features in zip(TEXTS, found):
    tokens, vectors, probs = alone(text)
    assert features.tokens == tuple(tokens)
    # Padding changes the order in which floats are added.
    np.testing.assert_allclose(features.vectors, vectors, atol=1e-5)
    np.testing.assert_allclose(features.attention_probs, probs, atol=1e-5)


def test_attention_goes_from_every_token_to_all_of_its_text():
  for features in extracted(TEXTS, attention_probs=True):
    length = len(features.tokens)
    assert features.attention_probs.shape == (K, N, length, length)
    np.testing.assert_allclose(features.attention_probs.sum(-1), 1, atol=1e-6)


def pool(vectors, pooling):
  """The vector of a text from [K, F, D]."""
  if pooling == "cls":
    return vectors[:, 0]
  return vectors.mean(axis=1) if pooling == "mean" else vectors.max(axis=1)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_a_pooling_takes_in_the_real_tokens_alone(alone, pooling):
  found = extracted(TEXTS, batch_size=32, pooling=pooling)
  for text, features in zip(TEXTS, found):
    tokens, vectors, _ = alone(text)
    assert features.tokens == tuple(tokens)
    assert features.attention_probs is None
    expected = pool(vectors.astype(np.float64), pooling)
    np.testing.assert_allclose(features.vectors, expected, atol=1e-5)


def test_one_hot_embeddings_give_the_same(monkeypatch):
  looked_up = extracted(TEXTS)
  embed = modeling.Embeddings.call
  used = []

  def watched(self, *inputs, **settings):
    used.append(self.use_one_hot_embeddings)
    return embed(self, *inputs, **settings)

  monkeypatch.setattr(modeling.Embeddings, "call", watched)
  multiplied = extracted(TEXTS, use_one_hot_embeddings=True)
  assert used == [True]
  for one, other in zip(looked_up, multiplied):
    np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)


def test_batches_of_any_shape_are_one_trace(monkeypatch):
  embed = modeling.Embeddings.call
  shapes = []

  def watched(self, input_ids, **settings):
    shapes.append(tuple(input_ids.shape))
    return embed(self, input_ids, **settings)

  monkeypatch.setattr(modeling.Embeddings, "call", watched)
  assert len(extracted(["the " * i for i in range(9)])) == 9
  assert shapes == [(None, None)]


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


def test_what_is_too_long_is_cut_and_a_blank_text_stays():
  long, pair, blank, half = extracted(
    ["the " * 9, ("the " * 9, "songs " * 9), "", ("the", "\u200b")],
    max_seq_length=7,
  )
  assert long.tokens == ("[CLS]", *["the"] * 5, "[SEP]")
  songs = ("songs", "songs", "[SEP]")
  assert pair.tokens == ("[CLS]", "the", "the", "[SEP]", *songs)
  assert blank.tokens == ("[CLS]", "[SEP]")
  # As in the original: a second text without a token makes no pair.
  assert half.tokens == ("[CLS]", "the", "[SEP]")


def test_no_more_than_a_batch_is_read_ahead():
  extractor = feature_extraction.FeatureExtractor(config(batch_size=3))
  taken = itertools.count()
  texts = (f"the {next(taken)}" for _ in range(100))
  found = extractor.extract(texts)
  for _ in range(4):
    next(found)
  assert next(taken) == 6


def test_what_is_neither_text_nor_pair_is_named():
  extractor = feature_extraction.FeatureExtractor(config())
  for odd in (("a", "b", "c"), ("a", 3), ()):
    with pytest.raises(ValueError, match="row 1 is no text"):
      list(extractor.extract(["a", odd]))


def write_lines(tmp_path, lines=LINES):
  path = tmp_path / "in.txt"
  path.write_text("".join(f"{line}\n" for line in lines))
  return str(path)


def extract(tmp_path, output_format="jsonl", lines=LINES, **settings):
  """Returns the file that is written."""
  output = tmp_path / f"out.{output_format}"
  num_lines = feature_extraction.extract_file(
    config(**settings), write_lines(tmp_path, lines), str(output), output_format
  )
  assert num_lines == len(lines)
  return output


def test_json_has_the_attention_of_each_layer(tmp_path, alone):
  path = extract(tmp_path, attention_probs=True)
  for index, line in enumerate(path.read_text().splitlines()):
    found = json.loads(line)
    assert list(found) == ["linex_index", "features", "attention_probs"]
    assert found["linex_index"] == index
    tokens, vectors, probs = alone(TEXTS[index])
    assert [token["token"] for token in found["features"]] == tokens
    values = [
      [layer["values"] for layer in token["layers"]]
      for token in found["features"]
    ]  # [F, K, D]
    np.testing.assert_allclose(np.swapaxes(values, 0, 1), vectors, atol=1e-5)
    layers = found["attention_probs"]
    assert [layer["index"] for layer in layers] == [-1, 0]
    np.testing.assert_allclose(
      [layer["heads"] for layer in layers], probs, atol=1e-5
    )


def test_json_of_a_pooling_has_one_vector_a_layer(tmp_path, alone):
  path = extract(tmp_path, pooling="mean")
  for index, line in enumerate(path.read_text().splitlines()):
    found = json.loads(line)
    assert list(found) == ["linex_index", "layers"]
    assert found["linex_index"] == index
    assert [layer["index"] for layer in found["layers"]] == [-1, 0]
    values = [layer["values"] for layer in found["layers"]]
    assert all(value == round(value, 6) for value in values[0])
    _, vectors, _ = alone(TEXTS[index])
    np.testing.assert_allclose(values, vectors.mean(axis=1), atol=1e-5)


def test_an_npz_has_arrays_of_each_line(tmp_path, alone):
  path = extract(tmp_path, "npz", attention_probs=True)
  with np.load(path) as arrays:  # It refuses pickles.
    names = [
      f"{name}_{i}"
      for i in range(len(LINES))
      for name in ("tokens", "features", "attention_probs")
    ]
    assert arrays.files == ["layers", *names]
    assert arrays["layers"].tolist() == [-1, 0]
    for index, text in enumerate(TEXTS):
      tokens, vectors, probs = alone(text)
      assert arrays[f"tokens_{index}"].tolist() == tokens
      found = arrays[f"features_{index}"]
      assert found.dtype == np.float32
      np.testing.assert_allclose(found, vectors, atol=1e-5)
      np.testing.assert_allclose(
        arrays[f"attention_probs_{index}"], probs, atol=1e-5
      )


def test_an_npz_of_a_pooling_is_one_array(tmp_path, alone):
  path = extract(tmp_path, "npz", pooling="max")
  expected = [alone(text)[1].max(axis=1) for text in TEXTS]
  with np.load(path) as arrays:
    assert arrays.files == ["layers", "features"]
    assert arrays["features"].dtype == np.float32
    assert arrays["features"].shape == (len(LINES), K, D)
    np.testing.assert_allclose(arrays["features"], expected, atol=1e-5)


def test_equal_inputs_give_equal_files(tmp_path):
  (tmp_path / "again").mkdir()
  one = extract(tmp_path, "npz", pooling="cls").read_bytes()
  again = extract(tmp_path / "again", "npz", pooling="cls")
  assert one == again.read_bytes()
  # On another day too.
  with zipfile.ZipFile(again) as archive:
    assert {e.date_time for e in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(
  ("output_format", "pooling"),
  [("jsonl", "none"), ("npz", "none"), ("npz", "mean")],
)
def test_lines_are_written_and_forgotten_as_they_come(
  tmp_path, monkeypatch, output_format, pooling
):
  num_lines = 300
  extract_texts = feature_extraction.FeatureExtractor.extract
  alive, sizes = [], []

  def watched(self, texts):
    found = []
    for features in extract_texts(self, texts):
      found.append(weakref.ref(features))
      alive.append(sum(reference() is not None for reference in found))
      sizes.append(next(tmp_path.glob(".out*/out*")).stat().st_size)
      yield features

  monkeypatch.setattr(feature_extraction.FeatureExtractor, "extract", watched)
  path = extract(
    tmp_path,
    output_format,
    lines=[f"the songs of {i}" for i in range(num_lines)],
    pooling=pooling,
  )
  # This one, the one before it that is being written, and no more.
  assert len(alive) == num_lines
  assert max(alive) <= 3
  # Half of the file at half of the lines, but for a buffer.
  size = path.stat().st_size
  assert size > 60_000
  assert size * 0.3 < sizes[num_lines // 2] < size * 0.6


def test_a_file_appears_when_it_is_whole(tmp_path, monkeypatch):
  path = write_lines(tmp_path, ["a"] * 5)
  output = tmp_path / "out.npz"
  output.write_text("as it was")
  load = feature_extraction.FeatureExtractor.__init__

  def load_slowly(self, given):
    load(self, given)
    with open(path, "a") as writer:
      writer.write("late\n")

  monkeypatch.setattr(
    feature_extraction.FeatureExtractor, "__init__", load_slowly
  )
  with pytest.raises(ValueError, match="5 lines and now has 6.* Start again"):
    feature_extraction.extract_file(
      config(pooling="mean"), path, str(output), "npz"
    )
  assert output.read_text() == "as it was"
  assert {p.name for p in tmp_path.iterdir()} == {"in.txt", "out.npz"}


BAD_SETTINGS = {
  "a layer above the last": (
    {"layers": (-1, 2)},
    "layer 2 is not there: .*bert_config.json has 2, 0 to 1 .* -1 to -2",
  ),
  "a layer below the first": ({"layers": (-3,)}, "layer -3 is not there"),
  "no layer": ({"layers": ()}, "layers is empty"),
  "a length that is too short": (
    {"max_seq_length": 2},
    "max_seq_length 2 is below 3",
  ),
  "a length without positions": (
    {"max_seq_length": 129},
    "max_seq_length 129 exceeds max_position_embeddings 128",
  ),
  "a batch of none": ({"batch_size": 0}, "batch_size 0 is below 1"),
  "a pooling": ({"pooling": "sum"}, "pooling 'sum' is not known; use none"),
  "attention and pooling": (
    {"pooling": "mean", "attention_probs": True},
    "attention_probs are of tokens, which pooling=mean leaves out",
  ),
  "no checkpoint": ({"init_checkpoint": "none"}, "'none' not found"),
}


@pytest.mark.parametrize("fault", BAD_SETTINGS)
def test_a_setting_that_does_not_fit_is_named(fault):
  settings, expected = BAD_SETTINGS[fault]
  with pytest.raises(ValueError, match=expected):
    feature_extraction.FeatureExtractor(config(**settings))


def test_another_vocabulary_is_refused(tmp_path):
  path = tmp_path / "vocab.txt"
  words = ["[UNK]", "[CLS]", "[SEP]", *map(str, range(498))]
  path.write_text("\n".join(words))
  with pytest.raises(ValueError, match="501 word pieces, but vocab_size"):
    feature_extraction.FeatureExtractor(config(vocab_file=str(path)))


def test_a_checkpoint_without_the_encoder_is_refused(tmp_path):
  reader = checkpoints.CheckpointReader(str(MODEL / "bert_model.ckpt"))
  kept = {n: reader.get(n) for n in reader.shapes if "layer_1/output" not in n}
  path = str(tmp_path / "model.ckpt")
  checkpoints.write(path, kept)
  with pytest.raises(
    ValueError, match="it lacks bert/encoder/layer_1/output/dense/kernel, "
  ):
    feature_extraction.FeatureExtractor(config(init_checkpoint=path))


def test_a_case_that_contradicts_the_checkpoint_is_refused(tmp_path):
  shutil.copytree(MODEL, tmp_path / "cased_L-12_H-768_A-12")
  path = str(tmp_path / "cased_L-12_H-768_A-12" / "bert_model.ckpt")
  with pytest.raises(ValueError, match="was trained on cased text"):
    feature_extraction.FeatureExtractor(config(init_checkpoint=path))


BAD_INPUTS = {
  "missing": (None, "there is no file .*in.txt"),
  "empty": (b"", "in.txt is empty"),
  "not UTF-8": (b"good\nb\xffd\n", "in.txt:2: not UTF-8 "),
}


@pytest.mark.parametrize("fault", BAD_INPUTS)
def test_a_bad_input_is_named_and_nothing_is_written(tmp_path, fault):
  content, expected = BAD_INPUTS[fault]
  path = tmp_path / "in.txt"
  if content is not None:
    path.write_bytes(content)
  output = tmp_path / "out.jsonl"
  with pytest.raises(ValueError, match=expected):
    feature_extraction.extract_file(config(), str(path), str(output))
  assert not list(tmp_path.glob("out*"))


def test_files_at_a_scheme_are_read_and_written(tmp_path):
  local = extract(tmp_path, pooling="cls").read_text()
  folder = "ram://feature_extraction"
  tf.io.gfile.makedirs(folder)
  with tf.io.gfile.GFile(f"{folder}/in.txt", "w") as writer:
    writer.write((tmp_path / "in.txt").read_text())
  feature_extraction.extract_file(
    config(pooling="cls"), f"{folder}/in.txt", f"{folder}/out.jsonl"
  )
  with tf.io.gfile.GFile(f"{folder}/out.jsonl") as reader:
    assert reader.read() == local


def test_the_input_is_not_written_over(tmp_path):
  path = write_lines(tmp_path)
  with pytest.raises(ValueError, match="is the input; name another"):
    feature_extraction.extract_file(config(), path, path)
  assert pathlib.Path(path).read_text().splitlines() == LINES


def test_another_format_is_refused(tmp_path):
  with pytest.raises(ValueError, match="'csv' is not known; use jsonl, npz"):
    extract(tmp_path, "csv")
