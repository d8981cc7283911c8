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
  title: str,
  zip_name: str,
  num_bytes: int,
  sha256: str,
  files: tuple[str, ...] = _TABLES,
) -> sources.Source:
  """Returns the source of a GLUE task that is published as a zip file."""
  return sources.Source(
    name=name,
    title=title,
    links=(sources.Link(f"{_GLUE}/{zip_name}.zip", sha256),),
    num_bytes=num_bytes,
    files=files,
    next_command=_classify(name),
  )


def _classify(task: str) -> str:
  """Returns the command that fine-tunes BERT-Base on a task.

  {folder} stands for the folder of the data.
  """
  return (
    f"bert-tf classifier --task_name={task} --data_dir={{folder}} --do_train "
    "--do_eval --model=uncased_L-12_H-768_A-12 "
    f"--output_dir={task.lower()}"
  )


GLUE = (
  _glue(
    "CoLA",
    "GLUE: acceptable sentences",
    "CoLA",
    376971,
    "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
  ),
  _glue(
    "SST-2",
    "GLUE: sentiment of movie reviews",
    "SST-2",
    7439277,
    "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
  ),
  sources.Source(
    name="MRPC",
    title="GLUE: paraphrases in the news",
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
    next_command=_classify("MRPC"),
    finish=mrpc.join,
  ),
  _glue(
    "STS-B",
    "GLUE: similarity of sentences",
    "STS-B",
    802872,
    "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
  ),
  _glue(
    "QQP",
    "GLUE: duplicate questions",
    "QQP-clean",
    41696084,
    "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
  ),
  _glue(
    "MNLI",
    "GLUE: entailment in ten genres",
    "MNLI",
    312783507,
    "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"),
  ),
  _glue(
    "QNLI",
    "GLUE: sentences that answer a question",
    "QNLIv2",
    10627589,
    "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
  ),
  _glue(
    "RTE",
    "GLUE: entailment, small",
    "RTE",
    697150,
    "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
  ),
  _glue(
    "WNLI",
    "GLUE: pronouns",
    "WNLI",
    28999,
    "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
  ),
  sources.Source(
    name="AX",
    title="GLUE: diagnostics for a model of MNLI",
    links=(
      sources.Link(
        f"{_GLUE}/AX.tsv",
        "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
        "diagnostic.tsv",
      ),
    ),
    num_bytes=222257,
    files=("diagnostic.tsv",),
    next_command="bert-tf classifier --task_name=AX --data_dir={folder} "
    "--do_predict --model=mnli --output_dir=ax",
  ),
)


def _squad(
  version: str, flag: str, num_bytes: int, train_sha256: str, dev_sha256: str
) -> sources.Source:
  """Returns the source of a SQuAD version.

  `flag` is the flag that `bert-tf squad` needs for this version, with a space
  after it; "" if none.
  """
  train, dev = f"train-v{version}.json", f"dev-v{version}.json"
  return sources.Source(
    name=f"SQuAD-{version}",
    title="questions on Wikipedia" + (", some without an answer" * bool(flag)),
    links=(
      sources.Link(f"{_SQUAD}/{train}", train_sha256, train),
      sources.Link(f"{_SQUAD}/{dev}", dev_sha256, dev),
    ),
    num_bytes=num_bytes,
    files=(train, dev),
    next_command=f"bert-tf squad --train_file={{folder}}/{train} "
    f"--predict_file={{folder}}/{dev} --do_train --do_predict {flag}"
    f"--model=uncased_L-12_H-768_A-12 --output_dir=squad-{version}",
  )


OTHERS = (
  _squad(
    "1.1",
    "",
    35142551,
    "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
    "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
  ),
  _squad(
    "2.0",
    "--version_2_with_negative ",
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
    files=(
      "xnli.dev.tsv",
      "xnli.test.tsv",
      "multinli/multinli.train.en.tsv",
    ),
    next_command="bert-tf classifier --task_name=XNLI --data_dir={folder} "
    "--xnli_language=de --do_train --do_eval "
    "--model=multi_cased_L-12_H-768_A-12 --output_dir=xnli",
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
    next_command="bert-tf swag --data_dir={folder} --do_train --do_eval "
    "--model=uncased_L-12_H-768_A-12 --output_dir=swag",
  ),
)

# Data that need a licence, with directions to obtain them.
LICENSED = {
  "CoNLL-2003": "Its texts need a licence, so they cannot be downloaded here. "
  "https://www.clips.uantwerpen.be/conll2003/ner/ has the annotations and "
  "tells how to obtain the Reuters corpus. Give the folder with the files of "
  "sentences to `bert-tf ner --data_dir`."
}
