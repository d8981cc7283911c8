"""The page of the server, as a browser shows it."""

import http.client
import re
import shutil
import subprocess
import types
import urllib.parse

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.inference import loaded_model
from tests import serving_client

pytest.importorskip("aiohttp", reason="pip install 'bert_tf[serve]'")

CHROMIUM = next(
  filter(
    None,
    map(shutil.which, ("chromium", "chromium-browser", "google-chrome")),
  ),
  None,
)
needs_chromium = pytest.mark.skipif(
  not CHROMIUM, reason="there is no Chromium: apt-get install chromium"
)

EVIL = "<img src=x onerror=\"document.title='owned'\">"


def function(names, outputs):
  """A function of texts that returns the same whatever it is asked."""
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
  heads[:, 1, :, :, 0] = 1.0  # All look at the first in the last layer.
  return {"tokens": [tokens], "attention": heads}


def model(**functions):
  return types.SimpleNamespace(version=1, info=None, functions=functions)


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


def shown(predictor, **texts):
  """Returns the page's HTML after texts were asked for."""
  with serving_client.running(predictor) as server:
    link = f"{server.url}/#{urllib.parse.urlencode(texts)}"
    result = subprocess.run(
      [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=10000",
        "--dump-dom",
        link,
      ],
      capture_output=True,
      text=True,
      timeout=1800,
    )
  assert result.returncode == 0, result.stderr
  return re.sub(r"<script>.*?</script>", "", result.stdout, flags=re.DOTALL)


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
  # The name of SVG's elements is no address that is fetched.
  addresses = set(re.findall(r"https?://[^\"'\s]+", html))
  assert addresses == {"http://www.w3.org/2000/svg"}
  for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write"):
    assert way not in html


@needs_chromium
def test_texts_and_labels_are_shown_as_they_are():
  html = shown(CLASSIFIER, text=f"of {EVIL}</textarea>")
  assert "<p>Label: &lt;b&gt;bad&lt;/b&gt;</p>" in html
  bars = re.findall(
    r'<td>([^<]*)</td><td class="number">([\d.]*)</td>.*?width: ([\d.]*)%', html
  )
  assert bars == [
    ("&lt;b&gt;bad&lt;/b&gt;", "0.7500", "75"),
    ("fine", "0.2500", "25"),
  ]
  # Of the attention, a word piece that is markup.
  assert html.count(f">{EVIL.replace('<', '&lt;').replace('>', '&gt;')}<") == 2
  assert "<img" not in html and "<b>" not in html
  assert "<title>model</title>" in html
  # The last layer's, of three tokens to the first.
  ends = re.findall(r'<line x1="\d+" y1="(\d+)" x2="\d+" y2="(\d+)"', html)
  assert ends == [("11", "11"), ("31", "11"), ("51", "11")]


@needs_chromium
@pytest.mark.slow
def test_an_answer_is_marked_in_its_context():
  found = {
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
  answerer = model(serving_default=function(["question", "context"], found))
  # The first character is two of JavaScript's.
  context = "\U0001f600 1843 <i> or so"
  html = shown(answerer, question="When?", context=context)
  assert "\U0001f600 <mark>1843 &lt;i&gt;</mark> or so" in html
  assert re.findall(r"<td>([^<]*)</td>", html) == [
    "1843 &lt;i&gt;",
    "(no answer)",
  ]
  assert "exported without attention" in html


@needs_chromium
@pytest.mark.slow
def test_words_have_their_labels():
  found = {
    "words": [["Ada", "left", "Bonn"]],
    "labels": [["B-PER", "O", "B-LOC"]],
    "probabilities": [[1.0, 0.5, 0.25]],
    "starts": np.int32([[0, 4, 9]]),
    "ends": np.int32([[3, 8, 13]]),
  }
  html = shown(
    model(serving_default=function(["text"], found)), text="Ada left Bonn"
  )
  marks = (
    "<mark>Ada<sub>B-PER</sub></mark> left <mark>Bonn<sub>B-LOC</sub></mark>"
  )
  assert marks in html


@needs_chromium
@pytest.mark.slow
def test_masks_have_their_tokens():
  found = {
    "tokens": [[["paris", "rome"], ["one", "##two"]]],
    "probabilities": [[[0.5, 0.25], [0.125, 0.0625]]],
  }
  filler = model(serving_default=function(["text"], found))
  html = shown(filler, text="[MASK] and [MASK]")
  assert re.findall(r"<td>([^<]*)</td>", html) == [
    "paris",
    "rome",
    "one",
    "##two",
  ]
  assert "write [MASK] for a word" in html


@needs_chromium
@pytest.mark.slow
def test_choices_are_a_line_each_and_mistakes_are_said():
  found = {
    "choice": np.int32([1]),
    "logits": [[0.0, 1.0]],
    "probabilities": [[0.25, 0.75]],
  }
  chooser = model(
    serving_default=loaded_model.Function(
      {
        "context": tf.TensorSpec([None], tf.string),
        "choices": tf.TensorSpec([None, None], tf.string),
      },
      lambda context, choices: {n: tf.constant(v) for n, v in found.items()},
      lambda: {name: tf.TensorSpec([None], tf.float32) for name in found},
    )
  )
  html = shown(chooser, context="She", choices="goes\n\nleaves")
  assert re.findall(r"<td>([^<]*)</td>", html) == ["leaves", "goes"]
  html = shown(chooser, context="a" * 30000, choices="goes")
  error = re.search(r'<p id="error"[^>]*>(.*?)</p>', html)[1]
  assert "a text of 30000 bytes; this server takes 20000" in error


@needs_chromium
@pytest.mark.slow
def test_a_model_of_ids_is_said_to_take_no_texts():
  spec = {"input_ids": tf.TensorSpec([None, None], tf.int32)}
  ids = loaded_model.Function(spec, lambda input_ids: input_ids, lambda: spec)
  html = shown(model(ids=ids, serving_default=ids))
  assert "This model takes word-piece ids, not texts." in html
