"""Tests for the page of the server in a browser."""

import ast
import contextlib
import dataclasses
import http.client
import json
import re
import shutil
import subprocess
import sys
import urllib.parse

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint import run_info
from bert_tf.inference import ids_functions, predictor
from tests.server import browser
from tests.support import fake_model, run_infos, serving_client, tiny_models

needs_chromium = browser.needs_chromium

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def model(fields, answer, **info):
  """Returns a model of texts with these names that gives one answer."""
  served = fake_model.FakeModel(text=fake_model.Constant(answer, *fields))
  if info:
    served.info = run_infos.make(**info)
  return served


def classifier(*tokens):
  answer = {
    "label": "<b>bad</b>",
    "probabilities": {"fine": 0.25, "<b>bad</b>": 0.75},
  }
  served = model(["text"], answer)
  heads = np.zeros((2, 3, len(tokens), len(tokens)), np.float32)
  # In the last layer all tokens attend to the first.
  heads[1, :, :, 0] = 1.0
  specs = {"attention": tf.TensorSpec([None, 2, 3, None, None], tf.float32)}
  served.functions["attention"] = ids_functions.IdsFunction(
    tiny_models.CONFIG, served.functions["ids"].inputs, specs, dict
  )
  served.attention = lambda text, text_b=None: predictor.Attention(
    tokens, heads
  )
  return served


CLASSIFIER = classifier("[CLS]", EVIL, "[SEP]")


@pytest.fixture(scope="module")
def tab():
  with browser.running() as running:
    yield running


@contextlib.contextmanager
def opened(tab, served, **texts):
  """Opens the page of a server, with texts filled in if given."""
  with serving_client.running(served) as server:
    tab.open(browser.link(server.url, **texts))
    wanted = "#time" if texts.keys() - {"model"} else "#fields"
    tab.wait(f"document.querySelector('{wanted}, #none').textContent")
    yield server


def bars(tab):
  """Returns (name and note, percentage, width) of each bar."""
  return [
    tuple(row)
    for row in tab.run(
      "[...document.querySelectorAll('#found tr')].map(r => [r.cells[0]."
      "innerText, r.cells[1].innerText, r.querySelector('div').style.width])"
    )
  ]


def test_the_page_asks_no_other_server_and_runs_no_other_script():
  with serving_client.running(CLASSIFIER) as server:
    address = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname, address.port)
    connection.request("GET", "/")
    response = connection.getresponse()
    html = response.read().decode()
    for path in re.findall(r'(?:href|src)="(page/[^"]+)"', html):
      connection.request("GET", f"/{path}")
      html += connection.getresponse().read().decode()
    connection.close()
  assert response.status == 200
  assert response.headers["Content-Type"] == "text/html; charset=utf-8"
  policy = response.headers["Content-Security-Policy"]
  assert policy.startswith("default-src 'none'; script-src 'self'")
  assert "unsafe" not in policy
  # The namespace of SVG is not fetched.
  addresses = set(re.findall(r"https?://[^\"'\s]+", html))
  assert addresses == {"http://www.w3.org/2000/svg"}
  for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write"):
    assert way not in html


@needs_chromium
def test_texts_and_labels_are_shown_verbatim(tab):
  with opened(tab, CLASSIFIER, text=f"of {EVIL}</textarea>"):
    assert tab.text(".answer") == "<b>bad</b>, 75.0 %"
    assert bars(tab) == [
      ("<b>bad</b>", "75.0 %", "75%"),
      ("fine", "25.0 %", "25%"),
    ]
    tab.wait("document.querySelectorAll('#picture line').length")
    # A word piece in the attention that is markup.
    assert tab.run("document.querySelectorAll('img, b').length") == 0
    assert tab.run("document.title") == "model"
    # The last layer: three tokens attend to the first.
    ends = tab.run(
      "[...document.querySelectorAll('#picture line')].map(l => "
      "[l.getAttribute('y1'), l.getAttribute('y2')])"
    )
    assert ends == [["12", "12"], ["34", "12"], ["56", "12"]]


@needs_chromium
def test_a_run_has_a_description_and_examples_to_click(tab):
  fine = {"inputs": {"text": "a fine film"}, "answer": "1"}
  served = model(
    ["text"],
    {"label": "1", "probabilities": {"0": 0.125, "1": 0.875}},
    task="classification",
    task_name="SST-2",
    is_pair=False,
    max_seq_length=64,
    labels=("0", "1"),
    scores={"eval_accuracy": 0.9174, "eval_loss": 0.36},
  )
  shown = (
    *(fine, {**fine, "inputs": {"text": "A fine film."}}),
    {"inputs": {"text": f"dull {EVIL}"}, "answer": "0"},
  )
  examples = run_info.Examples(num_train=67349, num_dev=872, shown=shown)
  served.info = dataclasses.replace(served.info, examples=examples)
  served.bert_config = tiny_models.CONFIG
  served.num_parameters = 12345
  with opened(tab, served):
    assert tab.run("document.getElementById('text').value") == "a fine film"
    facts = " ".join(tab.text("#facts").split())
    for fact in (
      "Classification: SST-2",
      "negative, positive",
      "2 layers of 16",
      "12,345 parameters",
      "67,349 for training",
      "64 word pieces",
      "Scores on 872 examples",
      "accuracy 0.917",
    ):
      assert fact in facts
    assert "loss" not in facts
    # The text that two examples have is offered once.
    buttons = "[...document.querySelectorAll('#examples button')]"
    texts = ["a fine film", f"dull {EVIL}"]
    assert tab.run(f"{buttons}.map(b => b.textContent)") == texts
    tab.run("document.querySelectorAll('#examples button')[1].click()")
    tab.wait("document.getElementById('time').textContent")
    assert tab.run("document.getElementById('text').value") == f"dull {EVIL}"
    assert bars(tab)[0] == ("positive 1", "87.5 %", "87.5%")
    assert "Expected: negative" in tab.text("#found")
    assert re.fullmatch(r"answered in \d+ ms", tab.text("#time"))
    # There is a single model, without attention.
    for name in ("chooser", "attention"):
      assert tab.run(f"document.getElementById('{name}').hidden")


@needs_chromium
def test_an_encoder_shows_the_similarity_of_two_texts(tab):
  # The vectors are (8, 2) and (5, 2).
  with opened(tab, fake_model.VectorModel(), text="the cats", text_b="a dog"):
    assert tab.text(".answer") == "Similarity 0.991"
    assert "[8,2]" not in tab.text("#found")
    tab.run("document.querySelector('#found summary').click()")
    assert "[[8,2],[5,2]]" in tab.text("#found")
    assert "Vectors of texts" in tab.text("#facts")
  with opened(tab, fake_model.VectorModel(), text="a"):
    assert tab.text(".answer") == "A vector of 2 numbers"


def masks(*tokens):
  return {"masks": [[{"token": t, "probability": 0.5} for t in tokens]]}


LABELS = {
  "label": ["10", "so"],
  "probabilities": {"10": 0.75, "2": 0.25, "so": 0.875},
}


@needs_chromium
@pytest.mark.parametrize(
  "task,answer,shown,expected",
  [
    (
      "classification",
      LABELS,
      "10, so",
      [("so", "87.5 %"), ("10", "75.0 %"), ("2", "25.0 %")],
    ),
    ("classification", {"label": 2.5, "probabilities": {}}, "2.500", []),
    (
      "pretraining",
      masks("paris", "##s"),
      "a paris",
      [("paris", "50.0 %"), ("##s", "50.0 %")],
    ),
  ],
  ids=["labels", "number", "masks"],
)
def test_probabilities_are_bars(tab, task, answer, shown, expected):
  served = model(["text"], answer, task=task)
  with opened(tab, served, text="a [MASK]"):
    assert shown in tab.text("#found")
    assert [bar[:2] for bar in bars(tab)] == expected
    best = "[...document.querySelectorAll('#found .best')].length"
    assert answer is not LABELS or tab.run(best) == 2


@needs_chromium
def test_an_answer_is_marked_in_its_context(tab):
  best = {"text": "1843 <i>", "start": 2, "end": 10, "probability": 0.5}
  none = {"text": None, "start": 0, "end": 0, "probability": 0.25}
  rare = {"text": "or so", "start": 11, "end": 16, "probability": 0.004}
  answer = {
    "answer": "1843 <i>",
    **{"start": 2, "end": 10, "probability": 0.5, "null_odds": -1.5},
    "nbest": [best, none, rare],
  }
  # In JavaScript the first character has length two.
  context = "\U0001f600 1843 <i> or so"
  names = ["question", "context"]
  served = model(names, answer)
  with opened(tab, served, question="When?", context=context):
    assert tab.text("#found .text") == context
    assert tab.text("#found mark") == "1843 <i>"
    assert [name for name, _, _ in bars(tab)] == ["1843 <i>", "no answer"]
  served = model(names, {**answer, "answer": None, "start": 0, "end": 0})
  with opened(tab, served, question="Why?", context=context):
    assert tab.text(".answer") == "The context has no answer, 50.0 %"
    assert not tab.run("document.querySelector('mark') !== null")
    assert ": -1.50" in tab.text("#found")


@needs_chromium
def test_words_are_joined_to_entities_of_plain_text(tab):
  rows = [
    *(("Ada", "B-PER", 1.0, 0), ("Byron", "I-PER", 0.5, 4)),
    *(("left", "O", 0.5, 10), ("Bonn", "B-LOC", 0.25, 15), (".", "O", 1.0, 19)),
  ]
  words = [
    {"word": w, "label": label, "probability": p, "start": n, "end": n + len(w)}
    for w, label, p, n in rows
  ]
  labels = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
  served = model(["text"], {"words": words}, task="ner", labels=labels)
  served.tasks["plain_text"] = served.tasks["text"]
  served.tasks["text"] = fake_model.Constant({"words": []}, "text")
  with opened(tab, served, text="Ada Byron left Bonn."):
    marks = "[...document.querySelectorAll('mark')].map(m => m.innerText)"
    assert tab.run(marks) == ["Ada ByronPER", "BonnLOC"]
    colors = marks.replace("m.innerText", "getComputedStyle(m).backgroundColor")
    assert len({*tab.run(colors)}) == 2
    assert tab.text("#found .text") == "Ada ByronPER left BonnLOC."
    # The lowest probability of its words.
    assert bars(tab) == [
      ("Ada Byron PER", "50.0 %", "50%"),
      ("Bonn LOC", "25.0 %", "25%"),
    ]


def chooser():
  answer = {"choice": 1, "probabilities": [0.25, 0.75]}
  return model(["context", "choices"], answer)


@needs_chromium
def test_choices_are_a_line_each_and_errors_are_shown(tab):
  with opened(
    tab, chooser(), context="She", choices="goes\n\nleaves"
  ) as server:
    assert [name for name, _, _ in bars(tab)] == ["leaves", "goes"]
    tab.open(browser.link(server.url, context="a" * 30000, choices="goes"))
    error = tab.wait("document.getElementById('error').textContent")
    assert "30000 bytes" in error and "20000" in error
    assert tab.run("document.getElementById('send').textContent") == "Ask"


@needs_chromium
def test_several_models_are_chosen_from_a_list(tab):
  models = {"first": CLASSIFIER, "other": chooser()}
  with opened(tab, models, model="other", context="a", choices="b\nc"):
    assert tab.text("h1") == "other"
    assert tab.text(".answer") == "c, 75.0 %"
    tab.run(
      "{const list = document.getElementById('model'); list.value = 'first';"
      "list.dispatchEvent(new Event('change'));}"
    )
    tab.wait("document.getElementById('text') !== null")
    assert tab.text("h1") == "first"
    assert tab.run("document.getElementById('answer').hidden")
    tab.run("document.getElementById('send').click()")
    tab.wait("document.getElementById('time').textContent")
    assert tab.text(".answer") == "<b>bad</b>, 75.0 %"


@needs_chromium
def test_copied_code_runs_and_gives_the_same_answer(tab, tmp_path):
  text = 'it\'s "quoted" \\ $HOME `x` \u2019'
  served = fake_model.FakeModel()
  seen = served.calls
  with opened(tab, served, text=text):
    shell, python = (
      tab.run(f"document.getElementById('{name}').textContent")
      for name in ("curl", "python")
    )
    seen.clear()
    commands = [[sys.executable, "-c", python]]
    if shutil.which("curl"):
      commands.append(["bash", "-c", shell.replace("curl ", "curl -sS ", 1)])
    outputs = [
      subprocess.run(c, capture_output=True, text=True, check=True).stdout
      for c in commands
    ]
  assert seen == [[text]] * len(commands)
  answer = {"length": len(text.encode()), "echo": text}
  assert ast.literal_eval(outputs[0]) == answer
  for output in outputs[1:]:
    assert json.loads(output) == {"predictions": [answer]}
