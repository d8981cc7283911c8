"""Commands without tensorflow-text: those that work, and those that need it.

docs/install.md has the table. A stub on PYTHONPATH hides the package.
"""

import os
import subprocess
import sys

import pytest

from tests.support import checkout, docs_files, forks

STUB = "raise ModuleNotFoundError(\"No module named 'tensorflow_text'\")\n"
TRAINING = (
  "--bert_config_file=minilm/bert_config.json --do_train --train_batch_size=8 "
  "--max_seq_length=16 --nouse_xla"
)
# Some read the files of those before them.
WORKS = (
  "create-pretraining-data --input_file=in.txt --output_file=a.tf_record "
  "--vocab_file=minilm/vocab.txt --max_seq_length=16 "
  "--max_predictions_per_seq=2",
  "pretrain --input_file=a.tf_record --output_dir=pretrained "
  f"--max_predictions_per_seq=2 --num_train_steps=1 {TRAINING}",
  "classifier --task_name=MRPC --data_dir=GLUE/MRPC --output_dir=run "
  f"--vocab_file=minilm/vocab.txt --num_train_epochs=1 --do_predict {TRAINING}",
  "fill-mask --model=pretrained --vocab_file=minilm/vocab.txt --text=[MASK]",
  "extract-features --model=run --input_file=in.txt "
  "--output_file=features.jsonl --max_seq_length=16 --layers=-1",
  "convert --model=run --output_checkpoint=hf --to=hf",
  "export --notext --model=run --export_dir=ids",
)
NEEDS = (
  "export --model=run --export_dir=new",
  "build-vocab --input_file=in.txt --output_file=new.txt",
  "pretrain --text=in.txt --output_dir=texts_run --train_minutes=1",
  "serve --model=texts --port=0",
)


@pytest.mark.slow
def test_commands_work_without_the_package_or_name_it(tmp_path, run_script):
  docs_files.write_all(tmp_path)
  stub = tmp_path / "stub"
  stub.mkdir()
  (stub / "tensorflow_text.py").write_text(STUB)
  path = f"{stub}{os.pathsep}{checkout.ROOT}"
  environment = {**os.environ, "PYTHONPATH": path}
  with forks.server(stub, environment) as server:
    client = [sys.executable, forks.__file__, server, "-m", "bert_tf"]

    def run(command):
      return subprocess.run(
        [*client, *command.split()],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
      )

    for command in WORKS:
      result = run(command)
      assert result.returncode == 0, (command, result.stderr)
    arguments = ("--model=run", "--export_dir=texts")
    exported = run_script("export", *arguments, cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    for command in NEEDS:
      result = run(command)
      assert result.returncode == 1, command
      *_, line = result.stderr.splitlines()
      assert "pip install 'tensorflow-text==2." in line
      assert "Traceback" not in result.stderr
