"""Takes docs/page.png, the picture of the server's page.

python -m tests.support.page_picture

It trains a small classifier, serves it and photographs its page in Chromium,
which takes a minute. Take it again when the page looks different.
"""

import json
import pathlib
import random
import re
import tempfile
import time

from PIL import Image

import bert_tf
from tests.server import browser
from tests.support import checkout, serving_client

PATH = checkout.ROOT / "docs" / "page.png"

_NOUNS = ("film", "story", "script", "ending", "cast", "first half")
_WORDS = {
  "good": ("touching", "clever", "funny", "bright", "moving", "fine"),
  "bad": ("dull", "tedious", "hollow", "bleak", "clumsy", "silly"),
}
_FORMS = (
  "the {noun} is {word} .",
  "what a {word} {noun} !",
  "a {word} {noun} , from the first minute to the last .",
  "i found the {noun} {word} .",
)


def _reviews(count, seed):
  """Returns texts and labels."""
  rng = random.Random(seed)
  labels = [rng.choice(list(_WORDS)) for _ in range(count)]
  texts = [
    rng.choice(_FORMS).format(
      noun=rng.choice(_NOUNS), word=rng.choice(_WORDS[label])
    )
    for label in labels
  ]
  return texts, labels


def _train(folder):
  """Trains a classifier of reviews in a folder."""
  texts, labels = _reviews(800, seed=1)
  words = sorted(set(re.findall(r"[a-z]+|[.,!]", " ".join(texts))))
  special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
  (folder / "vocab.txt").write_text("\n".join([*special, *words]) + "\n")
  sizes = {
    "vocab_size": len(special) + len(words),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
  }
  (folder / "bert_config.json").write_text(json.dumps(sizes))
  model = bert_tf.Classifier(
    str(folder / "bert_config.json"),
    str(folder / "vocab.txt"),
    str(folder / "run"),
    do_lower_case=True,
    max_seq_length=32,
  )
  model.fit(
    *(texts, labels, _reviews(100, seed=2)),
    learning_rate=1e-3,
    num_train_epochs=4.0,
    use_xla=False,
  )
  return str(folder / "run")


def take(path):
  """Writes a new picture."""
  with tempfile.TemporaryDirectory() as folder:
    model = bert_tf.load(_train(pathlib.Path(folder)))
    with (
      serving_client.running({"films": model}) as server,
      browser.running() as tab,
    ):
      while serving_client.ask(server.url, "/readyz")[0] != 200:
        time.sleep(0.1)
      tab.open(server.url, width=1000, height=1050)
      tab.wait("document.querySelectorAll('#examples button').length")
      tab.run("document.querySelectorAll('#examples button')[1].click()")
      tab.wait("document.querySelectorAll('#picture line').length")
      tab.picture(path)
  with Image.open(path) as image:
    image.quantize(64).save(path, optimize=True)


if __name__ == "__main__":
  take(PATH)
