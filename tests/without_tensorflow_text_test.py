"""Commands without tensorflow-text: those that work, and those that need it.

docs/install.md has the table. A stub on PYTHONPATH hides the package.
"""

import os
import pathlib
import re
import subprocess
import tempfile

import pytest

from tests.support import docs_files, forks

# Commands read the files of earlier ones, so either all run or none.
pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[1]
STUB = "raise ModuleNotFoundError(\"No module named 'tensorflow_text'\")\n"
TRAINING = (
  "--bert_config_file=minilm/bert_config.json --do_train --train_batch_size=8 "
  "--max_seq_length=16 --nouse_xla"
)
FINE_TUNING = (
  f"{TRAINING} --vocab_file=minilm/vocab.txt --num_train_epochs=1 --do_predict"
)
# By their names in the table. They run in this order.
WORKS = {
  "create-pretraining-data": "--input_file=in.txt "
  "--vocab_file=minilm/vocab.txt --output_file=a.tf_record "
  "--max_seq_length=16 --max_predictions_per_seq=2",
  "pretrain": "--input_file=a.tf_record --output_dir=pretrained --do_eval "
  f"--max_predictions_per_seq=2 --num_train_steps=1 {TRAINING}",
  "classifier": "--task_name=MRPC --data_dir=GLUE/MRPC --output_dir=run "
  f"--do_eval {FINE_TUNING}",
  "squad": "--train_file=train-v1.1.json --predict_file=dev-v1.1.json "
  f"--max_query_length=4 --doc_stride=4 --output_dir=squad {FINE_TUNING}",
  "ner": "--data_dir=conll2003 --train_file=eng.train --test_file=eng.testb "
  f"--output_dir=ner {FINE_TUNING}",
  "swag": f"--data_dir=swag --output_dir=choices {FINE_TUNING}",
  "convert": "--model=run --output_checkpoint=hf --to=hf",
  "inspect": "run",
  "score": "--model=pretrained --vocab_file=minilm/vocab.txt --text=the",
  "extend-vocab": "--model=run --output_dir=extended --words=newword "
  "--method=grow",
  "fill-mask": "--model=pretrained --vocab_file=minilm/vocab.txt --text=[MASK]",
  "extract-features": "--model=run --input_file=in.txt "
  "--output_file=features.jsonl --max_seq_length=16 --layers=-1",
  "export --notext": "--model=run --export_dir=ids",
  "export --runtime": "onnx --model=run --export_dir=onnx",
}
NEEDS = {
  "export": "--model=run --export_dir=new",
  "build-vocab": "--input_file=in.txt --output_file=new.txt",
  "pretrain --text": "in.txt --output_dir=texts_run --train_minutes=1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("files")
  docs_files.write_all(path)
  return path


@pytest.fixture(scope="module")
def run(folder):
  """Returns a function that runs a command without tensorflow-text."""
  stub = folder / "stub"
  stub.mkdir()
  (stub / "tensorflow_text.py").write_text(STUB)
  environment = {**os.environ, "PYTHONPATH": f"{stub}{os.pathsep}{ROOT}"}

  with forks.server(folder, environment) as server:

    def run_command(name, flags):
      words = ["-m", "bert_tf", *name.split(), *flags.split()]
      with tempfile.TemporaryFile("w+") as stderr:
        files = [0, 1, stderr.fileno()]
        status = forks.run(server, words, str(folder), environment, files)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, status, "", stderr.read())

    yield run_command


@pytest.mark.parametrize("name", WORKS)
def test_a_command_works_without_the_package(name, run):
  result = run(name, WORKS[name])
  assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", NEEDS)
def test_a_command_that_needs_the_package_says_how_to_install_it(name, run):
  result = run(name, NEEDS[name])
  assert result.returncode == 1
  *_, line = result.stderr.splitlines()
  assert re.search(r"pip install 'tensorflow-text==2\.\d+\.\*", line), line
  assert "Traceback" not in result.stderr


def test_a_savedmodel_of_texts_needs_the_package(folder, run, run_script):
  arguments = ("--model=run", "--export_dir=texts")
  exported = run_script("export", *arguments, cwd=folder)
  assert exported.returncode == 0, exported.stderr
  result = run("fill-mask", "--model=texts --text=[MASK]")
  assert result.returncode == 1
  *_, line = result.stderr.splitlines()
  assert "texts" in line and "pip install 'tensorflow-text==" in line


def test_the_table_of_the_page_is_that_of_these_tests():
  page = (ROOT / "docs" / "install.md").read_text()
  _, _, section = page.partition("## Without tensorflow-text")
  rows = re.findall(r"^\| (.+) \| (works|needs it).* \|$", section, re.M)
  named = {"works": "", "needs it": ""}
  for commands, result in rows:
    named[result] += commands
  for commands, result in ((WORKS, "works"), (NEEDS, "needs it")):
    missing = [name for name in commands if f"`{name}`" not in named[result]]
    assert not missing, result
