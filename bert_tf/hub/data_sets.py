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


def _glue(
  name: str,
  num_bytes: int,
  sha256: str,
  zip_name: str = "",
  files: tuple[str, ...] = _TABLES,
) -> sources.Source:
  return sources.Source(
    name=name,
    title="GLUE",
    links=(sources.Link(f"{_GLUE}/{zip_name or name}.zip", sha256),),
    num_bytes=num_bytes,
    files=files,
  )


GLUE = (
  _glue(
    "CoLA",
    376971,
    "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
  ),
  _glue(
    "SST-2",
    7439277,
    "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
  ),
  sources.Source(
    name="MRPC",
    title="GLUE",
    links=(
      sources.Link(
        f"{_SENTEVAL}/msr_paraphrase_train.txt",
        "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
        mrpc.TRAIN_TEXT,
      ),
      sources.Link(
        f"{_SENTEVAL}/msr_paraphrase_test.txt",
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
  _glue(
    "STS-B",
    802872,
    "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
  ),
  _glue(
    "QQP",
    41696084,
    "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
    zip_name="QQP-clean",
  ),
  _glue(
    "MNLI",
    312783507,
    "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    files=("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"),
  ),
  _glue(
    "QNLI",
    10627589,
    "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
    zip_name="QNLIv2",
  ),
  _glue(
    "RTE",
    697150,
    "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
  ),
  _glue(
    "WNLI",
    28999,
    "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
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


def _squad(
  version: str, num_bytes: int, train_sha256: str, dev_sha256: str
) -> sources.Source:
  train, dev = f"train-v{version}.json", f"dev-v{version}.json"
  return sources.Source(
    name=f"SQuAD-{version}",
    title="questions on Wikipedia",
    links=(
      sources.Link(f"{_SQUAD}/{train}", train_sha256, train),
      sources.Link(f"{_SQUAD}/{dev}", dev_sha256, dev),
    ),
    num_bytes=num_bytes,
    files=(train, dev),
  )


OTHERS = (
  _squad(
    "1.1",
    35142551,
    "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
    "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
  ),
  _squad(
    "2.0",
    46494161,
    "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
    "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
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
  sources.Source(
    name="SWAG",
    title="choice of the sentence that follows",
    links=(
      sources.Link(
        f"{_SWAG}/train.csv",
        "5748b51126ac255c5a6f26e1ba473b51116d6c822aeb25e63ecba282c9d0e610",
        "train.csv",
      ),
      sources.Link(
        f"{_SWAG}/val.csv",
        "c0497b2cd7f3e6b7df995524b1853f62285d60d110d659b19545ca80b2903234",
        "val.csv",
      ),
      sources.Link(
        f"{_SWAG}/test.csv",
        "a689a1a4e892a65ca625c1f0fcf77bcce004b59ad1caeb134ca5ec080a711cb6",
        "test.csv",
      ),
    ),
    num_bytes=43954806,
    files=("train.csv", "val.csv", "test.csv"),
  ),
)

# Data that need a licence, with directions to obtain them.
LICENSED = {
  "CoNLL-2003": "Its texts, the Reuters corpus, need a licence: see "
  "https://www.clips.uantwerpen.be/conll2003/ner/."
}
