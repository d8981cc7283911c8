"""The 33 checkpoints of the original release, with addresses and sizes."""

import re

from bert_tf.hub import sources

_RELEASES = "https://storage.googleapis.com/bert_models"

# The files of a released model. The first holds the values of its variables.
_FILES = (
  "bert_model.ckpt.data-00000-of-00001",
  "bert_model.ckpt.index",
  "bert_config.json",
  "vocab.txt",
)


def _model(
  zip_and_vocab_size: str,
  title: str,
  file_sha256: str | None = None,
  name: str = "",
) -> sources.Source:
  """Returns a released model.

  Args:
    zip_and_vocab_size: date and name of the zip, below the address of the
      releases, and the number of word pieces.
    title: a short description.
    file_sha256: hash of the checkpoint's data. Recorded in NVIDIA's
      DeepLearningExamples, GooglePretrainedWeightDownloader.py.
    name: the model's name; "" for the name of the zip.
  """
  path, vocab_size = zip_and_vocab_size.split()
  num_layers, width = map(int, re.findall(r"_[LH]-(\d+)", path))
  # Matrices in float32: embeddings, layers, pooler and masked LM. Biases and
  # layer norms add less than 1%.
  num_rows = int(vocab_size) + 514
  num_values = num_rows * width + (12 * num_layers + 2) * width**2
  return sources.Source(
    name=name or path.partition("/")[2],
    title=title,
    is_model=True,
    links=(sources.Link(f"{_RELEASES}/{path}.zip"),),
    num_bytes=4 * num_values,
    files=_FILES,
    file_sha256=file_sha256,
  )


# Zip with its date, word pieces, title and, where it is published, file_sha256.
_BASE_AND_LARGE = """
2018_10_18/uncased_L-12_H-768_A-12 30522
BERT-Base, Uncased
58580dc5e0bf0ae0d2efd51d0e8272b2f808857f0a43a88aaf7549da6d7a8a84

2018_10_18/uncased_L-24_H-1024_A-16 30522
BERT-Large, Uncased
bc6b3363e3be458c99ecf64b7f472d2b7c67534fd8f564c0556a678f90f4eea1

2018_10_18/cased_L-12_H-768_A-12 28996
BERT-Base, Cased
734d5a1b68bf98d4e9cb6b6692725d00842a1937af73902e51776905d8f760ea

2018_10_18/cased_L-24_H-1024_A-16 28996
BERT-Large, Cased
6ff33640f40d472f7a16af0c17b1179ca9dcc0373155fb05335b6a4dd1657ef0

2019_05_30/wwm_uncased_L-24_H-1024_A-16 30522
BERT-Large, Uncased, whole-word masking

2019_05_30/wwm_cased_L-24_H-1024_A-16 28996
BERT-Large, Cased, whole-word masking

2018_11_23/multi_cased_L-12_H-768_A-12 119547
BERT-Base, Multilingual Cased, 104 languages
55b8a2df41f69c60c5180e50a7c31b7cdf6238909390c4ddf05fbc0d37aa1ac5

2018_11_03/multilingual_L-12_H-768_A-12 105879
BERT-Base, Multilingual Uncased, not recommended
3cd83912ebeb0efe2abf35c9f1d5a515d8e80295e61c49b75c8853f756658429

2018_11_03/chinese_L-12_H-768_A-12 21128
BERT-Base, Chinese
756699356b78ad0ef1ca9ba6528297bcb3dd1aef5feadd31f4775d7c7fc989ba
"""

BASE_AND_LARGE = tuple(
  _model(*block.split("\n")) for block in _BASE_AND_LARGE.strip().split("\n\n")
)

# Names in the paper of the smaller models, by number of layers and width.
_SIZE_NAMES = {
  (2, 128): "Tiny",
  (4, 256): "Mini",
  (4, 512): "Small",
  (8, 512): "Medium",
}


def _small_model(num_layers: int, width: int) -> sources.Source:
  """Returns one of the smaller models of March 2020."""
  file = f"uncased_L-{num_layers}_H-{width}_A-{width // 64}"
  size = _SIZE_NAMES.get((num_layers, width), f"{num_layers}/{width}")
  title, name = f"BERT-{size}, Uncased", ""
  if (num_layers, width) == (12, 768):
    # The zip of BERT-Base of 2018 has the same name.
    title, name = "BERT-Base, Uncased, retrained in 2020", f"{file}_2020"
  return _model(f"2020_02_20/{file} 30522", title, name=name)


SMALL = tuple(
  _small_model(num_layers, width)
  for num_layers in (2, 4, 6, 8, 10, 12)
  for width in (128, 256, 512, 768)
)
