"""Tests for the page of the server in a browser."""

import contextlib
import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
import types
import urllib.parse

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.inference import loaded_model
from bert_tf.model_folder import run_info
from tests.server import browser
from tests.support import serving_client, tiny_models

pytest.importorskip("aiohttp", reason="pip install 'bert_tf[serve]'")

needs_chromium = browser.needs_chromium

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def function(names, outputs):
  """Returns a text function with constant outputs."""
  tensors = {name: tf.constant(value) for name, value in outputs.items()}
  return loaded_model.Function(
    {name: tf.TensorSpec([None], tf.string) for name in names},
    lambda **inputs: tensors,
    lambda: {
      name: tf.TensorSpec([None, *t.shape[1:]], t.dtype)
      for name, t in tensors.items()
    },
  )


def attention(tokens):
  count = len(tokens)
  heads = np.zeros((1, 2, 3, count, count), np.float32)
  heads[:, 1, :, :, 0] = (
    1.0  # In the last layer all tokens attend to the first.
  )
  return {"tokens": [tokens], "attention": heads}


def model(**functions):
  return types.SimpleNamespace(
    version=1,
    num_parameters=0,
    info=None,
    bert_config=None,
    vocab_file=None,
    functions=functions,
  )


CLASSIFIER = model(
  serving_default=function(
    ["text"],
    {
      "labels": [["fine", "<b>bad</b>"]],
      "label": ["<b>bad</b>"],
      "probabilities": [[0.25, 0.75]],
    },
  ),
  attention=function(["text"], attention(["[CLS]", EVIL, "[SEP]"])),
)


@pytest.fixture(scope="module")
def tab():
  with browser.running() as running:
    yield running


@contextlib.contextmanager
def opened(tab, predictor, width=1200, is_dark=False, **texts):
  """Opens the page of a server, with texts filled in if given."""
  with serving_client.running(predictor) as server:
    tab.open(browser.link(server.url, **texts), width, is_dark=is_dark)
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
    connection.close()
  assert response.status == 200
  assert response.headers["Content-Type"] == "text/html; charset=utf-8"
  policy = response.headers["Content-Security-Policy"]
  assert policy.startswith("default-src 'none'; script-src 'sha256-")
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
  info = run_info.RunInfo(
    task="classification",
    task_name="SST-2",
    problem_type="classification",
    labels=("0", "1"),
    is_pair=False,
    max_seq_length=64,
    num_train_examples=67349,
    scores={
      "eval_accuracy": 0.9174,
      "near_chance": 0.9,
      "eval_loss": 0.25,
      "loss": 0.26,
    },
    examples=(
      {"inputs": {"text": "a fine film"}, "answer": "1"},
      {"inputs": {"text": "a fine film"}, "answer": "1"},
      {"inputs": {"text": f"dull {EVIL}"}, "answer": "0"},
    ),
  )
  result = {
    "labels": [["0", "1"]],
    "label": ["1"],
    "probabilities": [[0.125, 0.875]],
  }
  served = model(serving_default=function(["text"], result))
  served.info = info
  served.bert_config = tiny_models.CONFIG
  served.num_parameters = 12345
  with opened(tab, served):
    assert tab.run("document.getElementById('text').value") == "a fine film"
    facts = tab.text("#facts")
    for fact in (
      "Classification: SST-2",
      "negative, positive",
      "2 layers of 16",
      "12,345 parameters",
      "67,349 for training",
      "64 word pieces",
    ):
      assert fact in facts
    assert re.search(
      r"accuracy\s+0.917\s+near chance of\s+0.9\s+loss\s+0.25\s", facts
    )
    # The text that two examples have is offered once.
    buttons = "[...document.querySelectorAll('#examples button')]"
    texts = ["a fine film", f"dull {EVIL}"]
    assert tab.run(f"{buttons}.map(b => b.textContent)") == texts
    tab.run("document.querySelectorAll('#examples button')[1].click()")
    tab.wait("document.getElementById('time').textContent")
    assert tab.run("document.getElementById('text').value") == f"dull {EVIL}"
    assert bars(tab)[0] == ("positive 1", "87.5 %", "87.5%")
    assert "Expected (dev file): negative" in tab.text("#found")
    assert re.fullmatch(r"answered in \d+ ms", tab.text("#time"))
    # There is a single model, without attention.
    for name in ("chooser", "attention"):
      assert tab.run(f"document.getElementById('{name}').hidden")


@needs_chromium
def test_several_labels_or_a_number_are_the_answer(tab):
  result = {
    "labels": [["10", "2", "so"]],
    "applies": [[True, False, True]],
    "probabilities": [[0.75, 0.25, 0.875]],
  }
  several = model(serving_default=function(["text"], result))
  with opened(tab, several, text="a"):
    assert tab.text(".answer") == "10, so"
    assert bars(tab) == [
      ("so", "87.5 %", "87.5%"),
      ("10", "75.0 %", "75%"),
      ("2", "25.0 %", "25%"),
    ]
    best = "[...document.querySelectorAll('#found .best')].length"
    assert tab.run(best) == 2
  number = function(["text"], {"prediction": [2.5]})
  with opened(tab, model(serving_default=number), text="a"):
    assert tab.text("#found") == "2.500"


@needs_chromium
def test_an_answer_is_marked_in_its_context(tab):
  result = {
    "answer": ["1843 <i>"],
    "start": np.int32([2]),
    "end": np.int32([10]),
    "probability": [0.5],
    "nbest_text": [["1843 <i>", "", ""]],
    "nbest_start": np.int32([[2, 0, 0]]),
    "nbest_end": np.int32([[10, 0, 0]]),
    "nbest_probability": [[0.5, 0.25, 0.0]],
    "nbest_start_logit": [[1.0, 0.0, 0.0]],
    "nbest_end_logit": [[1.0, 0.0, 0.0]],
    "null_odds": [-1.5],
  }
  # In JavaScript the first character has length two.
  context = "\U0001f600 1843 <i> or so"
  names = ["question", "context"]
  served = model(serving_default=function(names, result))
  with opened(tab, served, question="When?", context=context):
    assert tab.text("#found .text") == context
    assert tab.text("#found mark") == "1843 <i>"
    assert [name for name, _, _ in bars(tab)] == ["1843 <i>", "no answer"]
  result |= {"answer": [""], "start": np.int32([0]), "end": np.int32([0])}
  served = model(serving_default=function(names, result))
  with opened(tab, served, question="Why?", context=context):
    assert tab.text(".answer") == "The context has no answer, 50.0 %"
    assert not tab.run("document.querySelector('mark') !== null")
    assert ": -1.50" in tab.text("#found")


@needs_chromium
def test_words_are_joined_to_entities_of_plain_text(tab):
  result = {
    "words": [["Ada", "Byron", "left", "Bonn", "."]],
    "labels": [["B-PER", "I-PER", "O", "B-LOC", "O"]],
    "probabilities": [[1.0, 0.5, 0.5, 0.25, 1.0]],
    "starts": np.int32([[0, 4, 10, 15, 19]]),
    "ends": np.int32([[3, 9, 14, 19, 20]]),
  }
  blanks = {name: value[:1] for name, value in result.items()}
  served = model(
    serving_default=function(["text"], {**blanks, "labels": [["O"] * 5]}),
    plain_text=function(["text"], result),
  )
  with opened(tab, served, text="Ada Byron left Bonn."):
    marks = "[...document.querySelectorAll('mark')].map(m => m.innerText)"
    assert tab.run(marks) == ["Ada ByronPER", "BonnLOC"]
    assert tab.text("#found .text") == "Ada ByronPER left BonnLOC."
    # The lowest probability of its words.
    assert bars(tab) == [
      ("Ada Byron PER", "50.0 %", "50%"),
      ("Bonn LOC", "25.0 %", "25%"),
    ]
    assert "spaces" not in tab.text("#fields")


@needs_chromium
def test_masks_have_their_tokens(tab):
  result = {
    "tokens": [[["paris", "rome"], ["one", "##two"]]],
    "probabilities": [[[0.5, 0.25], [0.125, 0.0625]]],
  }
  filler = model(serving_default=function(["text"], result))
  with opened(tab, filler, text="[MASK] and [MASK]"):
    names = [name for name, _, _ in bars(tab)]
    assert names == ["paris", "rome", "one", "##two"]
    assert "write [MASK]" in tab.text("#fields")


def chooser():
  result = {
    "choice": np.int32([1]),
    "logits": [[0.0, 1.0]],
    "probabilities": [[0.25, 0.75]],
  }
  return model(
    serving_default=loaded_model.Function(
      {
        "context": tf.TensorSpec([None], tf.string),
        "choices": tf.TensorSpec([None, None], tf.string),
      },
      lambda context, choices: {n: tf.constant(v) for n, v in result.items()},
      lambda: {name: tf.TensorSpec([None], tf.float32) for name in result},
    )
  )


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
  seen = []
  served = model(
    serving_default=loaded_model.Function(
      {"text": tf.TensorSpec([None], tf.string)},
      lambda text: seen.append(text.numpy()[0].decode()) or {"echo": text},
      lambda: {"echo": tf.TensorSpec([None], tf.string)},
    )
  )
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
  assert seen == [text] * len(commands)
  assert outputs[0].strip() == text
  for output in outputs[1:]:
    assert json.loads(output) == {"predictions": [text]}


@needs_chromium
def test_a_wait_is_shown_and_ends(tab):
  gate = threading.Event()

  def slow(text):
    gate.wait(timeout=600)
    return {"echo": text}

  echo = {"echo": tf.TensorSpec([None], tf.string)}
  served = model(
    serving_default=loaded_model.Function(
      {"text": tf.TensorSpec([None], tf.string)}, slow, lambda: echo
    )
  )
  with opened(tab, served):
    tab.run("document.getElementById('send').click()")
    busy = "document.getElementById('send').getAttribute('aria-busy')"
    assert tab.run(busy) == "true"
    assert tab.run("document.getElementById('send').disabled")
    assert tab.text("#status") == "Computing"
    gate.set()
    tab.wait(f"{busy} === 'false'")
    assert tab.text("#status").startswith("Answer: ")
