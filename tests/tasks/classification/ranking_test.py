"""Ranking: its metrics, training, answers in Python and over HTTP."""

import json

import numpy as np
import pytest
from scipy import special
from sklearn import metrics

import bert_tf
from bert_tf.checkpoint import model_folder
from bert_tf.tasks.classification.metrics import score_rankings
from tests.support import runs, serving_client, tiny_models

WORDS = "hotel star city river light famous north south water music".split()


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_script):
  """Returns the folder of a model that prefers texts with two of the words."""
  folder = tmp_path_factory.mktemp("ranking")
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  rows = [
    {"query": f"the {query}", "text": f"a {word}", "fits": word in WORDS[2:4]}
    for query in WORDS[:5]
    for word in WORDS[:5]
  ]
  for split, count in (("train", 8), ("dev", 1)):
    lines = "".join(
      json.dumps({**row, "fits": float(row["fits"])}) + "\n" for row in rows
    )
    (folder / f"{split}.jsonl").write_text(lines * count)
  result = run_script(
    "classifier",
    *("--task_name=jsonl", f"--data_dir={folder}", "--problem_type=ranking"),
    *("--text_a_column=query", "--text_b_column=text", "--label_column=fits"),
    *("--bert_config_file=config.json", "--output_dir=out"),
    f"--vocab_file={tiny_models.TINY / 'vocab.txt'}",
    *("--do_train", "--do_eval", "--max_seq_length=16", "--use_xla=false"),
    *("--learning_rate=5e-3", "--num_train_epochs=30"),
    "--train_batch_size=8",
    cwd=folder,
  )
  assert result.returncode == 0, result.stderr
  return folder / "out"


def test_scores_are_those_of_scikit_learn_and_of_the_definition():
  generator = np.random.default_rng(1)
  relevances = generator.integers(0, 3, size=(20, 15)) / 2
  relevances[3] = 0  # A query without a relevant text does not count.
  scores = generator.normal(size=relevances.shape)
  queries = [str(i) for i in range(20) for _ in range(15)]
  order = generator.permutation(300)  # Rows of a query need not be neighbours.
  found = score_rankings(
    [queries[i] for i in order],
    relevances.ravel()[order],
    scores.ravel()[order],
  )
  kept = [i for i in range(20) if i != 3]
  expected = metrics.ndcg_score(relevances[kept], scores[kept], k=10)
  assert found["ndcg_at_10"] == pytest.approx(expected)
  ranks = []
  for i in kept:
    in_order = relevances[i][np.argsort(-scores[i])]
    ranks.append(next((1 / (n + 1) for n in range(10) if in_order[n]), 0.0))
  assert found["mrr_at_10"] == pytest.approx(np.mean(ranks))


def test_equal_scores_count_against_the_model():
  relevances, scores = np.array([1.0, 0.0, 0.0]), np.zeros(3)
  found = score_rankings(["a"] * 3, relevances, scores)
  assert found["mrr_at_10"] == pytest.approx(1 / 3)


def test_a_model_is_trained_evaluated_and_sorts_texts(trained):
  assert runs.results(trained)["ndcg_at_10"] > 0.9
  assert runs.results(trained)["mrr_at_10"] == 1.0
  model = bert_tf.load(trained)
  texts = [f"a {word}" for word in WORDS[:5]]
  answer = model.predict(("the city", texts))
  assert [sorted(item) for item in answer["ranking"]] == [
    ["index", "relevance_score"]
  ] * 5
  assert {item["index"] for item in answer["ranking"][:2]} == {2, 3}
  scores = [item["relevance_score"] for item in answer["ranking"]]
  assert scores == sorted(scores, reverse=True)
  assert 0.8 < scores[0] < 1
  pairs = model.predict([("the city", text) for text in texts])
  for item in answer["ranking"]:
    expected = pytest.approx(pairs[item["index"]]["label"], abs=1e-6)
    assert item["relevance_score"] == expected


def test_whole_queries_are_held_out(trained, tmp_path, run_script):
  lines = (trained.parent / "train.jsonl").read_text()
  (tmp_path / "rows.jsonl").write_text(lines)
  result = run_script(
    "classifier",
    *("--data_file=rows.jsonl", "--eval_fraction=0.4", "--output_dir=out"),
    *("--text_a_column=query", "--text_b_column=text", "--label_column=fits"),
    *("--problem_type=ranking", f"--model={trained}", "--do_eval"),
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  held_out = json.loads((tmp_path / "out" / "data_split.json").read_text())
  queries = [json.loads(line)["query"] for line in lines.splitlines()]
  dev = {queries[i] for i in held_out["dev"]}
  assert len(dev) == 2
  assert len(held_out["dev"]) == sum(query in dev for query in queries)


def test_rerank_answers_as_predict(trained):
  predictor = bert_tf.Predictor(str(trained))
  texts = [f"a {word}" for word in WORDS[:5]]
  expected = predictor.predict(("the star", texts))["ranking"]
  body = {"model": "model", "query": "the star", "documents": texts}
  with serving_client.running(predictor) as server:

    def ask(**changes):
      return serving_client.ask(server.url, "/v1/rerank", {**body, **changes})

    status, answer = ask()
    assert status == 200
    assert answer["model"] == "model"
    found = answer["results"]
    scores = {each["index"]: each["relevance_score"] for each in expected}
    assert {each["index"] for each in found} == scores.keys()
    for each in found:
      score = pytest.approx(scores[each["index"]], abs=1e-6)
      assert each["relevance_score"] == score
    assert ask(top_n=2)[1]["results"] == found[:2]
    assert ask(documents=[])[0] == 400
    assert ask(top_n=0)[0] == 400
    assert ask(model="other")[0] == 404
    assert ask(documents=["a"] * 600)[0] == 413


def test_only_a_model_with_one_output_sorts_texts(tmp_path):
  folder = tiny_models.write_classifier(tmp_path / "classifier")
  predictor = bert_tf.Predictor(str(folder))
  with pytest.raises(ValueError, match="one output"):
    predictor.predict(("the star", ["a", "b"]))
  body = {"model": "model", "query": "the star", "documents": ["a"]}
  with serving_client.running(predictor) as server:
    status, answer = serving_client.ask(server.url, "/v1/rerank", body)
    assert status == 400
    assert "one output" in answer["error"]


def test_exports_and_conversions_keep_the_activation(
  trained, tmp_path, run_script
):
  pair = ("the city", "a city")
  expected = bert_tf.load(trained).predict(pair)["label"]
  result = run_script(
    "export",
    *(f"--model={trained}", f"--export_dir={tmp_path / 'export'}"),
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  found = bert_tf.load(tmp_path / "export").predict(pair)["label"]
  assert found == pytest.approx(expected, abs=1e-6)
  pytest.importorskip("safetensors")
  result = run_script(
    "convert",
    *(f"--model={trained}", "--to=hf", f"--output_checkpoint={tmp_path}/hf"),
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  files = model_folder.ModelFolder.open(str(tmp_path / "hf"))
  assert files.labels.problem_type == "ranking"
  found = bert_tf.load(tmp_path / "hf").predict(pair)["label"]
  assert found == pytest.approx(expected, abs=1e-6)
  (tmp_path / "hf" / "run.json").unlink()
  config = json.loads((tmp_path / "hf" / "config.json").read_text())
  assert config["sentence_transformers"]["activation_fn"].endswith("Sigmoid")
  found = bert_tf.load(tmp_path / "hf").predict(pair)["label"]
  assert found == pytest.approx(expected, abs=1e-6)
  del config["sentence_transformers"]
  (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
  raw = bert_tf.load(tmp_path / "hf").predict(pair)["label"]
  assert special.expit(raw) == pytest.approx(expected, abs=1e-6)
