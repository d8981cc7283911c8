"""Tests that the memory of text functions is linear in the text."""

import json
import subprocess
import sys

import pytest

# Prints the growth of the process in MB for each of several long texts.
SCRIPT = """
import json
import resource

import tensorflow as tf

from bert_tf import heads
from bert_tf.export.signatures import spans
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import decoding, windows

HAN = [chr(0x4E00 + i) for i in range(300)]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word", *HAN]
tokenizer = bert_tokenizer.BertTokenizer({t: i for i, t in enumerate(TOKENS)})


def model(inputs):
  logits = tf.sin(tf.cast(inputs["input_ids"] * 7919, tf.float32))
  return heads.SpanOutput(logits, -logits)


answerer = spans.Answerer(
  model,
  tokenizer,
  squad_config.WindowConfig(384, 128, 64),
  squad_config.DecodingConfig(),
)
text = tf.TensorSpec([], tf.string)
answer = tf.function(answerer.answer, input_signature=[text, text])


def labelled_words(text):
  return tokenizer.split_at_white_space([text])


def labelled_signs(text):
  return tokenizer.split_plain_text([text])


def answered(text):
  return answer("word", text)


CASES = {
  "words": (labelled_words, "word " * 40_000),
  "signs": (labelled_signs, "?!" * 20_000),
  "answer in words": (answered, "word " * 20_000),
  "answer in one long word": (answered, "".join(HAN) * 10),
}
growth = {}
for name, (function, text) in CASES.items():
  function(text[:10])
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  function(text)
  after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  growth[name] = (after - before) / 1024
print(json.dumps(growth))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kB there")
def test_no_text_is_copied_for_each_of_its_words():
  results = subprocess.run(
    [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
  )
  growth = json.loads(results.stdout.splitlines()[-1])
  assert len(growth) == 4
  # Copies would take 600 MB to 8 GB.
  assert {k: mb for k, mb in growth.items() if mb > 300} == {}
