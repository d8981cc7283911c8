"""BERT from raw text to served models, one command for each step."""

import importlib
import sys

import bert_tf
from bert_tf.cli import command, flag_texts

# The module of each command, by the groups of the help.
GROUPS = {
  "Data": {
    "download": "download",
    "build-corpus": "build_corpus",
    "build-vocab": "build_vocab",
    "create-pretraining-data": "create_pretraining_data",
  },
  "Train and evaluate": {
    "pretrain": "run_pretraining",
    "classifier": "run_classifier",
    "squad": "run_squad",
    "squad-evaluate": "squad_evaluate",
    "ner": "run_ner",
    "swag": "run_swag",
  },
  "Predict and serve": {
    "fill-mask": "fill_mask",
    "score": "score",
    "extract-features": "extract_features",
    "export": "export_savedmodel",
    "serve": "serve",
  },
  "Convert and inspect": {
    "convert": "convert_checkpoint",
    "convert-savedmodel": "convert_savedmodel",
    "inspect": "inspect_checkpoint",
    "extend-vocab": "extend_vocab",
    "plot-curves": "plot_curves",
  },
  "Check": {"doctor": "doctor"},
}

# The module of each command.
COMMANDS = {
  name: module for group in GROUPS.values() for name, module in group.items()
}


def run() -> None:
  """Runs `bert-tf COMMAND`; never returns."""
  name, *arguments = sys.argv[1:] or ["--help"]
  if name in ("--help", "-h", "help"):
    with command.exit_with_reader():
      print(_help())
    sys.exit()
  if name == "--version":
    print(f"bert-tf {bert_tf.__version__}")
    sys.exit()
  if name not in COMMANDS:
    sys.exit(
      f"bert-tf: error: unknown command {name!r}; bert-tf --help lists all."
    )
  sys.argv = [f"bert-tf {name}", *arguments]
  importlib.import_module(f"bert_tf.cli.{COMMANDS[name]}").run()


def _help() -> str:
  """Returns the help: the first docstring line of each command's module."""
  lines = [str(__doc__)]
  for title, group in GROUPS.items():
    lines += ["", f"{title}:"]
    for name, module_name in group.items():
      module = importlib.import_module(f"bert_tf.cli.{module_name}")
      lines.append(flag_texts.entry(name, str(module.__doc__).splitlines()[0]))
  lines += ["", "bert-tf COMMAND --help shows an example and the main flags."]
  return "\n".join([*lines, "bert-tf --version prints the version."])
