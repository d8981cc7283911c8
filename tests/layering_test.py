"""Folders import only from the folders before them."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bert_tf"
RESEARCH = ROOT / "research"

# Folders and the modules at the root of the package, in import order. The
# original's `modeling` counts as a part of `model`.
FOLDERS = (
  "names",
  "settings",
  "task_registry",
  "files",
  "distribution",
  "tokenization",
  "text",
  "model",
  "optimization",
  "checkpoint",
  "data",
  "training",
  "tasks",
  "inference",
  "export",
  "server",
  "pipeline",
  "cli",
)

# `from_pretrained` and `save_pretrained` are the only imports upwards.
UPWARDS = (PACKAGE / "model" / "heads.py", PACKAGE / "modeling.py")

# Modules that work without TensorFlow, whose import takes seconds. Commands and
# configs do so too.
WITHOUT_TENSORFLOW = (
  "checkpoint.hub.download",
  "checkpoint.run_info",
  "data.pretraining.masking",
  "files.atomic",
  "files.compression",
  "files.errors",
  "files.messages",
  "files.packages",
  "files.paths",
  "files.worker_pool",
  "settings",
  "task_registry",
  "tasks.pretraining.pretraining_config",
  "tasks.squad.metrics",
  "text.corpus",
  "text.corpus_build",
  "text.letter_case",
  "text.pydoc_corpus",
  "text.sources",
  "text.vocabulary",
  "tokenization",
)


def modules():
  """Yields dotted name below bert_tf and file of each module."""
  for path in sorted(PACKAGE.rglob("*.py")):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts[-1] not in ("__init__", "__main__"):
      yield ".".join(parts), path


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


def imported_modules(path, known):
  """Returns the modules in `known` that a file imports."""
  imported = set()
  for name in imported_names(path):
    parts = name.split(".")
    if parts[0] == "bert_tf":
      ends = range(len(parts), 1, -1)
      candidates = (".".join(parts[1:end]) for end in ends)
      imported.update(next(([c] for c in candidates if c in known), []))
  if path in UPWARDS:
    imported.discard("checkpoint.model_folder")
  return imported


def test_all_folders_are_in_the_order():
  assert {folder(name) for name, _ in modules()} == set(FOLDERS)


def test_folders_import_from_the_folders_before_them():
  known = {name for name, _ in modules()}
  wrong = [
    f"{name} imports {imported}"
    for name, path in modules()
    for imported in sorted(imported_modules(path, known))
    if FOLDERS.index(folder(imported)) > FOLDERS.index(folder(name))
  ]
  assert not wrong


def test_modules_import_in_one_direction():
  known = dict(modules())
  imports = {n: imported_modules(path, known) for n, path in known.items()}
  while free := [n for n, imported in imports.items() if not imported]:
    for name in free:
      del imports[name]
    for imported in imports.values():
      imported.difference_update(free)
  assert not imports, "circular imports"


def top_level_names(path):
  """Returns the top-level names that a file imports."""
  return {name.split(".")[0] for name in imported_names(path)}


def test_the_library_imports_neither_research_nor_scripts():
  scripts = {path.stem for path in (ROOT / "run_scripts").rglob("*.py")}
  for path in PACKAGE.rglob("*.py"):
    assert not top_level_names(path) & {"research", "run_scripts", *scripts}, (
      path
    )


def test_tests_import_no_other_test_files():
  for path in (ROOT / "tests").rglob("*.py"):
    parts = {p for n in imported_names(path) for p in n.split(".")}
    assert not [part for part in parts if part.endswith("_test")], path


def test_peers_import_nothing_of_this_project():
  peers = sorted((RESEARCH / "benchmarks" / "peers").glob("*.py"))
  assert len(peers) > 3
  for path in peers:
    assert not top_level_names(path) & {"bert_tf", "research"}, path.name


def test_only_commands_use_flags():
  for name, path in modules():
    absl = {n for n in imported_names(path) if n.startswith("absl")}
    if folder(name) != "cli":
      assert not absl & {"absl.flags", "absl.app", "absl"}, name


def test_commands_and_text_modules_import_no_tensorflow():
  names = {name for name, _ in modules()}
  light = [n for n in names if n.startswith("cli.") or n.endswith(".config")]
  code = "import sys\n"
  code += "".join(
    f"import bert_tf.{name}\n" for name in (*WITHOUT_TENSORFLOW, *light)
  )
  heavy = ("tensorflow", "keras", "sklearn", "scipy", "tensorboard")
  code += f"print([m for m in {heavy} if m in sys.modules])"
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert (result.stdout.strip(), result.stderr) == ("[]", "")


SCRIPTS = sorted((ROOT / "run_scripts").rglob("*.py"))
SCRIPTS.remove(ROOT / "run_scripts" / "sweep.py")  # It has no command.


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_only_call_their_command(path):
  # Scripts of research/ also add the checkout to sys.path.
  assert len(path.read_text().splitlines()) <= 11
