"""The 33 checkpoints of the original release, with addresses and sizes."""

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
  path: str,
  title: str,
  size: tuple[int, int, int],
  file_sha256: str | None = None,
  name: str = "",
) -> sources.Source:
  """Returns a released model.

  Args:
    path: date and name of the zip, below the address of the releases.
    title: a short description.
    size: number of layers, width and size of the vocabulary.
    file_sha256: hash of the checkpoint's data. Recorded in NVIDIA's
      DeepLearningExamples, GooglePretrainedWeightDownloader.py.
    name: the model's name; "" for the name of the zip.
  """
  num_layers, width, vocab_size = size
  # Matrices in float32: embeddings, layers, pooler and masked LM. Biases and
  # layer norms add less than 1%.
  num_values = (vocab_size + 514) * width + (12 * num_layers + 2) * width**2
  return sources.Source(
    name=name or path.partition("/")[2],
    title=title,
    is_model=True,
    links=(sources.Link(f"{_RELEASES}/{path}.zip"),),
    num_bytes=4 * num_values,
    files=_FILES,
    file_sha256=file_sha256,
  )


# Word pieces of each vocabulary.
_UNCASED, _CASED, _MULTI_CASED, _MULTI_UNCASED, _CHINESE = (
  *(30522, 28996, 119547, 105879, 21128),
)

BASE_AND_LARGE = (
  _model(
    "2018_10_18/uncased_L-12_H-768_A-12",
    "BERT-Base, Uncased",
    (12, 768, _UNCASED),
    "58580dc5e0bf0ae0d2efd51d0e8272b2f808857f0a43a88aaf7549da6d7a8a84",
  ),
  _model(
    "2018_10_18/uncased_L-24_H-1024_A-16",
    "BERT-Large, Uncased",
    (24, 1024, _UNCASED),
    "bc6b3363e3be458c99ecf64b7f472d2b7c67534fd8f564c0556a678f90f4eea1",
  ),
  _model(
    "2018_10_18/cased_L-12_H-768_A-12",
    "BERT-Base, Cased",
    (12, 768, _CASED),
    "734d5a1b68bf98d4e9cb6b6692725d00842a1937af73902e51776905d8f760ea",
  ),
  _model(
    "2018_10_18/cased_L-24_H-1024_A-16",
    "BERT-Large, Cased",
    (24, 1024, _CASED),
    "6ff33640f40d472f7a16af0c17b1179ca9dcc0373155fb05335b6a4dd1657ef0",
  ),
  _model(
    "2019_05_30/wwm_uncased_L-24_H-1024_A-16",
    "BERT-Large, Uncased, whole-word masking",
    (24, 1024, _UNCASED),
  ),
  _model(
    "2019_05_30/wwm_cased_L-24_H-1024_A-16",
    "BERT-Large, Cased, whole-word masking",
    (24, 1024, _CASED),
  ),
  _model(
    "2018_11_23/multi_cased_L-12_H-768_A-12",
    "BERT-Base, Multilingual Cased, 104 languages",
    (12, 768, _MULTI_CASED),
    "55b8a2df41f69c60c5180e50a7c31b7cdf6238909390c4ddf05fbc0d37aa1ac5",
  ),
  _model(
    "2018_11_03/multilingual_L-12_H-768_A-12",
    "BERT-Base, Multilingual Uncased, not recommended",
    (12, 768, _MULTI_UNCASED),
    "3cd83912ebeb0efe2abf35c9f1d5a515d8e80295e61c49b75c8853f756658429",
  ),
  _model(
    "2018_11_03/chinese_L-12_H-768_A-12",
    "BERT-Base, Chinese",
    (12, 768, _CHINESE),
    "756699356b78ad0ef1ca9ba6528297bcb3dd1aef5feadd31f4775d7c7fc989ba",
  ),
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
  name = _SIZE_NAMES.get((num_layers, width), "")
  is_base = (num_layers, width) == (12, 768)
  title = f"BERT-{name or f'{num_layers}/{width}'}, Uncased"
  return _model(
    f"2020_02_20/{file}",
    "BERT-Base, Uncased, retrained in 2020" if is_base else title,
    (num_layers, width, _UNCASED),
    # The zip of BERT-Base of 2018 has the same name.
    name=f"{file}_2020" if is_base else "",
  )


SMALL = tuple(
  _small_model(num_layers, width)
  for num_layers in (2, 4, 6, 8, 10, 12)
  for width in (128, 256, 512, 768)
)
