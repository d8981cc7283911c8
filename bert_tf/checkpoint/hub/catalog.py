"""The models and data sets that have names, with addresses and hashes.

Sizes and hashes of data sets come from TensorFlow Datasets and from Hugging
Face's package datasets (url_checksums/glue.txt, squad/checksums.tsv,
dataset_infos.json), those of checkpoints from NVIDIA's DeepLearningExamples
(GooglePretrainedWeightDownloader.py).
"""

import dataclasses
import itertools
import os
from collections.abc import Callable

from bert_tf.files import atomic

# Names of models at Hugging Face begin with this prefix: hf:OWNER/NAME.
HUGGING_FACE = "hf:"


@dataclasses.dataclass(frozen=True)
class Link:
  """A file to download."""

  url: str
  sha256: str | None = None  # None if no hash is published.
  file: str = ""  # Its name in the source's folder; "" for a zip to unpack.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
  """A model or a data set."""

  name: str  # The name for `bert-tf download`.
  title: str  # A short description.
  is_model: bool = False  # Whether it is a model rather than a data set.
  links: tuple[Link, ...]  # Empty for a model of Hugging Face.
  num_bytes: int  # Of all downloads; of a model, about those of the checkpoint.
  files: tuple[str, ...]  # Files that the complete folder must have.
  file_sha256: str | None = None  # Hash of the first file, if published.
  # Writes files that are not downloaded, given the folder.
  complete: Callable[[str], None] | None = None


def _model(
  date: str,
  prefix: str,
  num_layers: int,
  width: int,
  vocab_size: int,
  title: str,
  file_sha256: str | None = None,
  name: str = "",
) -> Source:
  # file_sha256 is that of the checkpoint's data, where it is published.
  zip_name = f"{prefix}_L-{num_layers}_H-{width}_A-{width // 64}"
  # Matrices in float32: embeddings, layers, pooler and masked LM. Biases and
  # layer norms add less than 1%.
  num_rows = vocab_size + 514
  num_values = num_rows * width + (12 * num_layers + 2) * width**2
  url = f"https://storage.googleapis.com/bert_models/{date}/{zip_name}.zip"
  return Source(
    name=name or zip_name,
    title=title,
    is_model=True,
    links=(Link(url),),
    num_bytes=4 * num_values,
    files=(
      "bert_model.ckpt.data-00000-of-00001",
      "bert_model.ckpt.index",
      "bert_config.json",
      "vocab.txt",
    ),
    file_sha256=file_sha256,
  )


# Names in the paper of the smaller models, by number of layers and width.
_SIZE_NAMES = {
  (2, 128): "Tiny",
  (4, 256): "Mini",
  (4, 512): "Small",
  (8, 512): "Medium",
  (12, 768): "Base, retrained in 2020",
}

# fmt: off
# The 33 checkpoints of the original release: date and prefix of the zip, number
# of layers, width, word pieces, title, and the hash of the checkpoint's data.
MODELS = (
  _model("2018_10_18", "uncased", 12, 768, 30522, "BERT-Base, Uncased",
    "58580dc5e0bf0ae0d2efd51d0e8272b2f808857f0a43a88aaf7549da6d7a8a84"),
  _model("2018_10_18", "uncased", 24, 1024, 30522, "BERT-Large, Uncased",
    "bc6b3363e3be458c99ecf64b7f472d2b7c67534fd8f564c0556a678f90f4eea1"),
  _model("2018_10_18", "cased", 12, 768, 28996, "BERT-Base, Cased",
    "734d5a1b68bf98d4e9cb6b6692725d00842a1937af73902e51776905d8f760ea"),
  _model("2018_10_18", "cased", 24, 1024, 28996, "BERT-Large, Cased",
    "6ff33640f40d472f7a16af0c17b1179ca9dcc0373155fb05335b6a4dd1657ef0"),
  _model("2019_05_30", "wwm_uncased", 24, 1024, 30522,
    "BERT-Large, Uncased, whole-word masking"),
  _model("2019_05_30", "wwm_cased", 24, 1024, 28996,
    "BERT-Large, Cased, whole-word masking"),
  _model("2018_11_23", "multi_cased", 12, 768, 119547,
    "BERT-Base, Multilingual Cased, 104 languages",
    "55b8a2df41f69c60c5180e50a7c31b7cdf6238909390c4ddf05fbc0d37aa1ac5"),
  _model("2018_11_03", "multilingual", 12, 768, 105879,
    "BERT-Base, Multilingual Uncased, not recommended",
    "3cd83912ebeb0efe2abf35c9f1d5a515d8e80295e61c49b75c8853f756658429"),
  _model("2018_11_03", "chinese", 12, 768, 21128, "BERT-Base, Chinese",
    "756699356b78ad0ef1ca9ba6528297bcb3dd1aef5feadd31f4775d7c7fc989ba"),
  *(
    _model("2020_02_20", "uncased", *size, 30522,
      f"BERT-{_SIZE_NAMES.get(size, f'{size[0]}/{size[1]}')}, Uncased",
      # The zip of BERT-Base of 2018 has the same name.
      name="uncased_L-12_H-768_A-12_2020" if size == (12, 768) else "")
    for size in itertools.product((2, 4, 6, 8, 10, 12), (128, 256, 512, 768))
  ),
)
# fmt: on

_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_SWAG = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"
_XNLI = "https://dl.fbaipublicfiles.com/XNLI"
_MRPC_TRAIN = "msr_paraphrase_train.txt"
_MRPC_TEST = "msr_paraphrase_test.txt"
_MRPC_DEV_IDS = "dev_ids.tsv"

_TABLES = ("train.tsv", "dev.tsv", "test.tsv")


def _join_mrpc(folder: str) -> None:
  """Writes train.tsv, dev.tsv and test.tsv of MRPC beside Microsoft's files.

  The dev set consists of the pairs of the training text whose ids are in GLUE's
  file. As in GLUE, the test set has an index in place of the label.
  """

  def read(name: str) -> list[list[str]]:
    # Microsoft's files begin with a byte order mark; none has quotation.
    with open(os.path.join(folder, name), encoding="utf-8-sig") as lines:
      return [line.strip().split("\t") for line in lines if line.strip()]

  # The columns are the label, both ids and both sentences.
  columns = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
  dev_ids = {tuple(row) for row in read(_MRPC_DEV_IDS)}
  tables = {"train.tsv": [columns], "dev.tsv": [columns]}
  for row in read(_MRPC_TRAIN)[1:]:
    is_dev = tuple(row[1:3]) in dev_ids
    tables["dev.tsv" if is_dev else "train.tsv"].append(row)
  tables["test.tsv"] = [["index", *columns[1:]]] + [
    [str(index), *row[1:]] for index, row in enumerate(read(_MRPC_TEST)[1:])
  ]
  for name, rows in tables.items():
    lines = ["\t".join(row) for row in rows]
    atomic.write_lines(os.path.join(folder, name), lines)


def _link(base: str, name: str, sha256: str, file: str = "") -> Link:
  is_zip = name.endswith(".zip")
  return Link(f"{base}/{name}", sha256, "" if is_zip else file or name)


def _data_set(
  name: str,
  title: str,
  num_bytes: int,
  *links: Link,
  files: tuple[str, ...] = (),
  complete: Callable[[str], None] | None = None,
) -> Source:
  # Without `files`, they are those of the links.
  return Source(
    name=name,
    title=title,
    links=links,
    num_bytes=num_bytes,
    files=files or tuple(link.file for link in links),
    complete=complete,
  )


# fmt: off
# Name, title and number of bytes of all data sets, and their downloads.
DATA_SETS = (
  _data_set("CoLA", "GLUE", 376_971,
    _link(_GLUE, "CoLA.zip",
      "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
    files=_TABLES),
  _data_set("SST-2", "GLUE", 7_439_277,
    _link(_GLUE, "SST-2.zip",
      "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
    files=_TABLES),
  _data_set("STS-B", "GLUE", 802_872,
    _link(_GLUE, "STS-B.zip",
      "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
    files=_TABLES),
  _data_set("QQP", "GLUE", 41_696_084,
    _link(_GLUE, "QQP-clean.zip",
      "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
    files=_TABLES),
  _data_set("MNLI", "GLUE", 312_783_507,
    _link(_GLUE, "MNLI.zip",
      "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
    files=("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv")),
  _data_set("QNLI", "GLUE", 10_627_589,
    _link(_GLUE, "QNLIv2.zip",
      "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
    files=_TABLES),
  _data_set("RTE", "GLUE", 697_150,
    _link(_GLUE, "RTE.zip",
      "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
    files=_TABLES),
  _data_set("WNLI", "GLUE", 28_999,
    _link(_GLUE, "WNLI.zip",
      "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46"),
    files=_TABLES),
  _data_set("MRPC", "GLUE", 1_494_541,
    _link(_SENTEVAL, _MRPC_TRAIN,
      "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
    _link(_SENTEVAL, _MRPC_TEST,
      "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"),
    _link(_GLUE, "mrpc_dev_ids.tsv",
      "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
      _MRPC_DEV_IDS),
    files=_TABLES, complete=_join_mrpc),
  _data_set("AX", "GLUE", 222_257,
    _link(_GLUE, "AX.tsv",
      "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
      "diagnostic.tsv")),
  _data_set("SQuAD-1.1", "questions on Wikipedia", 35_142_551,
    _link(_SQUAD, "train-v1.1.json",
      "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"),
    _link(_SQUAD, "dev-v1.1.json",
      "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9")),
  _data_set("SQuAD-2.0", "questions on Wikipedia", 46_494_161,
    _link(_SQUAD, "train-v2.0.json",
      "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"),
    _link(_SQUAD, "dev-v2.0.json",
      "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8")),
  _data_set("XNLI", "entailment in 15 languages", 483_963_712,
    _link(_XNLI, "XNLI-1.0.zip",
      "4ba1d5e1afdb7161f0f23c66dc787802ccfa8a25a3ddd3b165a35e50df346ab1"),
    _link(_XNLI, "XNLI-MT-1.0.zip",
      "f732517ba2fb1d550e9f3c2aabaef6017c91ee2dcec90e878f138764d224db05"),
    files=("xnli.dev.tsv", "xnli.test.tsv", "multinli/multinli.train.en.tsv")),
  _data_set("SWAG", "choice of the sentence that follows", 43_954_806,
    _link(_SWAG, "train.csv",
      "5748b51126ac255c5a6f26e1ba473b51116d6c822aeb25e63ecba282c9d0e610"),
    _link(_SWAG, "val.csv",
      "c0497b2cd7f3e6b7df995524b1853f62285d60d110d659b19545ca80b2903234"),
    _link(_SWAG, "test.csv",
      "a689a1a4e892a65ca625c1f0fcf77bcce004b59ad1caeb134ca5ec080a711cb6")),
)
# fmt: on

ALL = (*MODELS, *DATA_SETS)


def find_source(name: str) -> Source | None:
  """Returns the source with a name, ignoring case; None if unknown.

  Raises:
    ValueError: if a name begins with hf: but is not hf:OWNER/NAME.
  """
  if name.startswith(HUGGING_FACE):
    parts = name.removeprefix(HUGGING_FACE).split("/")
    if len(parts) != 2 or not all(part.strip(".") for part in parts):
      raise ValueError(f"{name} is not of the form hf:OWNER/NAME.")
    files = ("config.json", "model.safetensors")
    return Source(
      name=name, title="", is_model=True, links=(), num_bytes=0, files=files
    )
  return {s.name.lower(): s for s in ALL}.get(name.lower())


def get_source(name: str) -> Source:
  """Returns the source with a name, ignoring case.

  Raises:
    ValueError: if the name is unknown.
  """
  if source := find_source(name):
    return source
  raise ValueError(
    f"{name} is unknown; `bert-tf download` lists all names. Hugging Face's "
    f"models are {HUGGING_FACE}OWNER/NAME."
  )
