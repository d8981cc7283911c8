"""Training of text vectors: pairs, losses, results and folders."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import sentence_transformers
from bert_tf.tasks.encoder import config as encoder_config
from bert_tf.tasks.encoder import task as encoder
from tests.support import runs, setups, tiny_models

VOCAB = tiny_models.TINY / "vocab.txt"
WORDS = "hotel star city river light famous north south water music".split()


def make_task(**settings):
  tokenizer = bert_tf.FullTokenizer(str(VOCAB))
  settings = {"data_file": "pairs.csv", "pooling": "mean", **settings}
  return setups.make(encoder_config.VectorsConfig, tokenizer, 16, **settings)


def softmax_loss(logits):
  """Returns the mean of -log softmax on the diagonal."""
  exponentials = np.exp(logits)
  return -np.log(np.diagonal(exponentials) / exponentials.sum(1)).mean()


@pytest.mark.parametrize("num_texts", [2, 3])
@pytest.mark.parametrize("is_symmetric", [False, True])
def test_the_loss_is_the_softmax_over_the_texts_of_a_batch(
  num_texts, is_symmetric
):
  task = make_task(is_symmetric=is_symmetric, similarity_scale=5.0)
  generator = np.random.default_rng(1)
  hidden = generator.normal(size=(4, num_texts, 6, 8)).astype(np.float32)
  mask = np.arange(6) < generator.integers(2, 7, size=(4, num_texts, 1))
  ids = generator.integers(1, 9, size=mask.shape) * mask
  ids[2, 1], mask[2, 1], hidden[2, 1] = ids[0, 1], mask[0, 1], hidden[0, 1]
  sums = task.loss_sums(
    lambda features, training: types.SimpleNamespace(sequence_output=hidden),
    {"input_ids": ids, "input_mask": mask.astype(np.int32)},
    training=True,
  )
  means = (hidden * mask[..., None]).sum(2) / mask.sum(2)[..., None]
  unit = means / np.linalg.norm(means, axis=-1, keepdims=True)
  candidates = np.concatenate([unit[:, i] for i in range(1, num_texts)])
  logits = 5 * unit[:, 0] @ candidates.T
  logits[0, 2] = logits[2, 0] = -np.inf  # The second texts are copies.
  expected = softmax_loss(logits)
  if is_symmetric:
    expected = (expected + softmax_loss(5 * unit[:, 1] @ unit[:, 0].T)) / 2
  total, weight = sums.losses["vector_loss"]
  assert float(total / weight) == pytest.approx(expected, rel=1e-5)


def test_a_part_of_the_batch_is_refused(monkeypatch):
  context = types.SimpleNamespace(num_replicas_in_sync=2)
  monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: context)
  hidden = np.ones((4, 2, 6, 8), np.float32)
  ids = np.ones(hidden.shape[:3], np.int32)
  with pytest.raises(ValueError, match="distribution"):
    make_task().compute_losses(
      types.SimpleNamespace(sequence_output=hidden),
      {"input_ids": ids, "input_mask": ids},
    )


def test_with_scores_the_loss_is_the_squared_error_of_the_cosine():
  task = make_task(score_column="score")
  hidden = np.array([[[[3.0, 4.0]], [[4.0, 3.0]]]], np.float32)
  sums = task.loss_sums(
    lambda features, training: types.SimpleNamespace(sequence_output=hidden),
    {
      "input_ids": np.ones((1, 2, 1), int),
      "input_mask": np.ones((1, 2, 1), int),
      "label_scores": np.array([[0.5]], np.float32),
    },
    training=True,
  )
  total, weight = sums.losses["vector_loss"]
  assert float(total / weight) == pytest.approx((24 / 25 - 0.5) ** 2)


def test_a_partner_ranks_behind_the_texts_that_are_more_similar():
  generator = np.random.default_rng(2)
  texts, partners = generator.normal(size=(2, 1500, 4))
  partners[7] = partners[1400]  # Copies do not count.
  cosines = texts @ partners.T
  expected = [(row > row[i] + 1e-6).sum() + 1 for i, row in enumerate(cosines)]
  np.testing.assert_array_equal(encoder.find_ranks(texts, partners), expected)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_script):
  """Returns the folder of a run on pairs of texts that share a word."""
  folder = tmp_path_factory.mktemp("vectors")
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  lines = [
    f"the {word} {end},{word} in the {other}"
    for word in WORDS
    for end in ("is", "was", "of", "and")
    for other in ("first", "second")
  ]
  (folder / "pairs.csv").write_text("\n".join(["text,text_b", *lines]))
  dev = [f"a {word},to the {word}" for word in WORDS]
  (folder / "dev.csv").write_text("\n".join(["text,text_b", *dev]))
  result = run_script(
    "vectors",
    *("--data_file=pairs.csv", "--dev_file=dev.csv"),
    *("--bert_config_file=config.json", f"--vocab_file={VOCAB}"),
    *("--do_train", "--do_eval", "--do_predict", "--output_dir=out"),
    *("--pooling=mean", "--normalize", "--max_seq_length=16"),
    *("--learning_rate=3e-3", "--num_train_epochs=30"),
    *("--train_batch_size=16", "--eval_every_steps=50", "--use_xla=false"),
    cwd=folder,
  )
  assert result.returncode == 0, result.stderr
  return folder / "out"


def test_training_brings_texts_of_a_pair_together(trained):
  results = runs.results(trained)
  assert results["recall_at_1"] == 1.0
  assert results["mrr"] == 1.0
  texts = [f"{start} {word}" for word in WORDS for start in ("a", "to the")]
  vectors = bert_tf.load(trained).encode(texts)
  np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
  lines = (trained / "predictions.jsonl").read_text().splitlines()
  similarities = [json.loads(line)["similarity"] for line in lines]
  expected = (vectors[::2] * vectors[1::2]).sum(1)
  np.testing.assert_allclose(similarities, expected, atol=1e-5)


def test_a_trained_folder_converts_to_sentence_transformers(
  trained, tmp_path, run_script
):
  pytest.importorskip("safetensors")
  target = tmp_path / "hf"
  result = run_script(
    "convert",
    *(f"--model={trained}", "--to=hf", f"--output_checkpoint={target}"),
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  found = sentence_transformers.read_settings(str(target))
  assert found == sentence_transformers.VectorSettings("mean", True, 16)
  texts = ["the hotel", "a river in the north"]
  there, here = (bert_tf.load(f).encode(texts) for f in (target, trained))
  np.testing.assert_allclose(there, here, atol=1e-6)


def test_scores_in_memory_train_the_cosine(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps(runs.CONFIG))
  model = bert_tf.SentenceEncoder(
    bert_config_file=str(tmp_path / "config.json"),
    vocab_file=str(VOCAB),
    output_dir=str(tmp_path / "out"),
    **{"max_seq_length": 16, "max_score": 5, "use_xla": False},
  )
  pairs = [(a, b) for a in WORDS for b in WORDS]
  scores = [5 if a == b else 0 for a, b in pairs]
  settings = {"learning_rate": 3e-3, "num_train_epochs": 12.0}
  results = model.fit(pairs, scores, (pairs, scores), **settings)
  assert results["pearson"] > 0.9
  assert model.score(pairs, scores) == pytest.approx(results["spearman"])
  vectors = model.encode(WORDS)
  assert vectors.shape == (len(WORDS), 16)
  np.testing.assert_allclose(model.encode(WORDS[0]), vectors[0], atol=1e-5)


def test_held_out_pairs_have_first_texts_of_their_own(tmp_path):
  path = tmp_path / "pairs.tsv"
  lines = [f"text {i % 150}\tother {i}" for i in range(600)]
  path.write_text("\n".join(["text\ttext_b", *lines]))
  task = make_task(data_file=str(path), eval_fraction=0.2)
  train, dev = task.read("train"), task.read("dev")
  assert len(train) + len(dev) == 600
  assert 60 < len(dev) < 180
  assert {row["text"] for row in train}.isdisjoint(row["text"] for row in dev)


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    (
      {"train": {"gradient_accumulation_steps": 2}},
      "cannot be computed in parts",
    ),
    ({"score_column": "s", "negative_column": "n"}, "`negative_column`"),
  ],
)
def test_settings_that_do_not_fit_are_refused(settings, expected):
  with pytest.raises(ValueError, match=expected):
    make_task(**settings)


def test_a_score_above_the_largest_is_refused(tmp_path):
  path = tmp_path / "pairs.csv"
  path.write_text("text,text_b,score\nthe hotel,a hotel,4.2\n")
  task = make_task(data_file=str(path), score_column="score", eval_fraction=0)
  with pytest.raises(ValueError, match=r"pairs.csv:2: .*4.2"):
    task.read("train")
