"""BERT from raw text to served models, with a command for each step."""

import importlib
import sys

import bert_tf
from bert_tf import task_registry
from bert_tf.cli import command, config_flags, fine_tune
from bert_tf.files import messages

# The fine-tuning task of each command that has one.
_TASKS = {t.command: t for t in task_registry.TASKS.values() if t.command}

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
    **dict.fromkeys(_TASKS, "fine_tune"),
    "squad-evaluate": "squad_evaluate",
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
    "inspect": "inspect_checkpoint",
    "extend-vocab": "extend_vocab",
    "plot-curves": "plot_curves",
  },
  "Check": {"doctor": "doctor"},
}

# The module of each command.
COMMANDS = {name: m for group in GROUPS.values() for name, m in group.items()}


@command.exit_with_reader()
def run() -> None:
  """Runs `bert-tf COMMAND`; never returns."""
  name, *arguments = sys.argv[1:] or ["--help"]
  if name in ("--help", "-h", "help"):
    print(str(__doc__))
    for title, group in GROUPS.items():
      print(f"\n{title}:")
      for command_name, module in group.items():
        if command_name in _TASKS:
          text = _TASKS[command_name].help
        else:
          text = str(importlib.import_module(f"bert_tf.cli.{module}").__doc__)
        print(config_flags.entry(command_name, text.splitlines()[0]))
    print("\nbert-tf COMMAND --help shows an example and the main flags.")
    print("bert-tf --version prints the version.")
    sys.exit()
  if name == "--version":
    print(f"bert-tf {bert_tf.__version__}")
    sys.exit()
  if name not in COMMANDS:
    hint = messages.did_you_mean(name, COMMANDS) + " bert-tf --help lists all."
    sys.exit(f"bert-tf: error: unknown command {name}.{hint}")
  sys.argv = [f"bert-tf {name}", *arguments]
  if name in _TASKS:
    fine_tune.run(_TASKS[name])
  importlib.import_module(f"bert_tf.cli.{COMMANDS[name]}").run()
