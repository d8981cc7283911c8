"""The data sets of the BERT paper, with addresses, sizes and hashes.

Sizes and hashes come from TensorFlow Datasets and from Hugging Face's package
datasets (url_checksums/glue.txt, squad/checksums.tsv, dataset_infos.json).
"""

from bert_tf.hub import mrpc, sources

_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_XNLI = "https://dl.fbaipublicfiles.com/XNLI"
_SWAG = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"

_TABLES = ("train.tsv", "dev.tsv", "test.tsv")
_ZIP_NAMES = {"QQP": "QQP-clean", "QNLI": "QNLIv2"}

# Name, bytes and SHA-256 of each zip.
_ZIPS = """
CoLA 376971 f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff
SST-2 7439277 d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa
STS-B 802872 e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85
QQP 41696084 40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0
MNLI 312783507 e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633
QNLI 10627589 e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5
RTE 697150 6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee
WNLI 28999 ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46
"""


def _glue(row: str) -> sources.Source:
  name, num_bytes, sha256 = row.split()
  dev = ("dev_matched.tsv", "dev_mismatched.tsv")
  return sources.Source(
    name=name,
    title="GLUE",
    links=(sources.Link(f"{_GLUE}/{_ZIP_NAMES.get(name, name)}.zip", sha256),),
    num_bytes=int(num_bytes),
    files=("train.tsv", *dev) if name == "MNLI" else _TABLES,
  )


def _files(
  name: str, title: str, num_bytes: int, url: str, files: dict[str, str]
) -> sources.Source:
  """Returns a data set of single files, given with their SHA-256."""
  return sources.Source(
    name=name,
    title=title,
    links=tuple(
      sources.Link(f"{url}/{file}", sha256, file)
      for file, sha256 in files.items()
    ),
    num_bytes=num_bytes,
    files=tuple(files),
  )


GLUE = (
  *map(_glue, _ZIPS.strip().splitlines()),
  sources.Source(
    name="MRPC",
    title="GLUE",
    links=(
      sources.Link(
        f"{_SENTEVAL}/{mrpc.TRAIN_TEXT}",
        "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
        mrpc.TRAIN_TEXT,
      ),
      sources.Link(
        f"{_SENTEVAL}/{mrpc.TEST_TEXT}",
        "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
        mrpc.TEST_TEXT,
      ),
      sources.Link(
        f"{_GLUE}/mrpc_dev_ids.tsv",
        "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
        mrpc.DEV_IDS,
      ),
    ),
    num_bytes=1494541,
    files=_TABLES,
    finish=mrpc.join,
  ),
  sources.Source(
    name="AX",
    title="GLUE",
    links=(
      sources.Link(
        f"{_GLUE}/AX.tsv",
        "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
        "diagnostic.tsv",
      ),
    ),
    num_bytes=222257,
    files=("diagnostic.tsv",),
  ),
)

OTHERS = (
  _files(
    "SQuAD-1.1",
    "questions on Wikipedia",
    35142551,
    _SQUAD,
    {
      "train-v1.1.json": "3527663986b8295af4f7fcdff1ba1ff3"
      "f72d07d61a20f487cb238a6ef92fd955",
      "dev-v1.1.json": "95aa6a52d5d6a735563366753ca50492"
      "a658031da74f301ac5238b03966972c9",
    },
  ),
  _files(
    "SQuAD-2.0",
    "questions on Wikipedia",
    46494161,
    _SQUAD,
    {
      "train-v2.0.json": "68dcfbb971bd3e96d5b46c7177b16c1a"
      "4e7d4bdef19fb204502738552dede002",
      "dev-v2.0.json": "80a5225e94905956a6446d296ca1093975"
      "c4d3b3260f1d6c8f68bc2ab77182d8",
    },
  ),
  sources.Source(
    name="XNLI",
    title="entailment in 15 languages",
    links=(
      sources.Link(
        f"{_XNLI}/XNLI-1.0.zip",
        "4ba1d5e1afdb7161f0f23c66dc787802ccfa8a25a3ddd3b165a35e50df346ab1",
      ),
      sources.Link(
        f"{_XNLI}/XNLI-MT-1.0.zip",
        "f732517ba2fb1d550e9f3c2aabaef6017c91ee2dcec90e878f138764d224db05",
      ),
    ),
    num_bytes=483963712,
    files=("xnli.dev.tsv", "xnli.test.tsv", "multinli/multinli.train.en.tsv"),
  ),
  _files(
    "SWAG",
    "choice of the sentence that follows",
    43954806,
    _SWAG,
    {
      "train.csv": "5748b51126ac255c5a6f26e1ba473b51"
      "116d6c822aeb25e63ecba282c9d0e610",
      "val.csv": "c0497b2cd7f3e6b7df995524b1853f62"
      "285d60d110d659b19545ca80b2903234",
      "test.csv": "a689a1a4e892a65ca625c1f0fcf77bcc"
      "e004b59ad1caeb134ca5ec080a711cb6",
    },
  ),
)

# Data that need a licence, with directions to obtain them.
LICENSED = {
  "CoNLL-2003": "Its texts, the Reuters corpus, need a licence: see "
  "https://www.clips.uantwerpen.be/conll2003/ner/."
}
