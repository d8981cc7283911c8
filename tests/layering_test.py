"""Folders import only from the folders before them."""

import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bert_tf"

# Folders and the modules at the root of the package, in import order. The
# original's `modeling` counts as a part of `model`.
FOLDERS = (
  *("names", "settings", "task_registry", "files", "distribution"),
  *("tokenization", "text", "model", "optimization", "checkpoint", "data"),
  *("training", "tasks", "inference", "export", "server", "pipeline", "cli"),
)

# What reads and writes model folders and texts imports upwards, in functions.
UPWARDS = ("modeling", "model.heads", "model.pretrained_model")

# Modules that work without TensorFlow, whose import takes seconds. Commands and
# configs do so too.
WITHOUT_TENSORFLOW = (
  "checkpoint.download",
  "checkpoint.run_info",
  "data.pretraining.masking",
  "files.atomic",
  "files.worker_pool",
  "task_registry",
  "tasks.pretraining.pretraining_config",
  "tasks.squad.metrics",
  "text.corpus_build",
  "text.pydoc_corpus",
  "text.vocabulary",
  "tokenization",
)


def list_modules():
  """Returns the file of each module, by its dotted name below bert_tf."""
  paths = sorted(PACKAGE.rglob("*.py"))
  parts = [path.relative_to(PACKAGE).with_suffix("").parts for path in paths]
  return {
    ".".join(names): path
    for names, path in zip(parts, paths)
    if names[-1] not in ("__init__", "__main__")
  }


MODULES = list_modules()


def folder(name):
  """Returns the entry of FOLDERS that contains a module."""
  return "model" if name == "modeling" else name.partition(".")[0]


def imported_names(path):
  """Returns all dotted names that a file imports, also inside functions."""
  names = set()
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      names.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      names.update(f"{node.module}.{alias.name}" for alias in node.names)
  return names


def imported_modules(path):
  """Returns the modules of the package that a file imports."""
  imported = set()
  for name in imported_names(path):
    parts = name.removeprefix("bert_tf.").split(".")
    ends = range(len(parts) if name.startswith("bert_tf.") else 0, 0, -1)
    candidates = (".".join(parts[:end]) for end in ends)
    imported.update(next(([c] for c in candidates if c in MODULES), []))
  if path in [MODULES[name] for name in UPWARDS]:
    imported -= {"checkpoint.model_folder", "export.preprocessor"}
  return imported


def test_folders_import_from_the_folders_before_them():
  assert {folder(name) for name in MODULES} <= set(FOLDERS)
  assert not [
    f"{name} imports {imported}"
    for name, path in MODULES.items()
    for imported in sorted(imported_modules(path))
    if FOLDERS.index(folder(imported)) > FOLDERS.index(folder(name))
  ]


def test_modules_import_in_one_direction():
  imports = {n: imported_modules(path) for n, path in MODULES.items()}
  while free := [n for n, imported in imports.items() if not imported]:
    for name in free:
      del imports[name]
    for imported in imports.values():
      imported.difference_update(free)
  assert not imports, "circular imports"


def test_the_library_imports_no_research_and_only_commands_use_flags():
  for name, path in MODULES.items():
    imported = imported_names(path)
    tops = {name.split(".")[0] for name in imported}
    assert not tops & {"research", "run_scripts", "tests"}, name
    if folder(name) != "cli":
      assert not imported & {"absl.flags", "absl.app", "absl"}, name


def test_commands_and_text_modules_import_no_tensorflow():
  light = [n for n in MODULES if n.startswith("cli.") or n.endswith(".config")]
  names = (*WITHOUT_TENSORFLOW, *light)
  code = "import sys\n" + "".join(f"import bert_tf.{name}\n" for name in names)
  heavy = ("tensorflow", "keras", "sklearn", "scipy", "tensorboard")
  code += f"print([m for m in {heavy} if m in sys.modules])"
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert (result.stdout.strip(), result.stderr) == ("[]", "")
