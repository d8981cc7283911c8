"""Advice of error messages is followed to the letter, and then it works.

Each row is a mistake, what its error advises, and the command of a user who
follows it. That command either succeeds or is stopped by the next check.
"""

import shlex
import subprocess

import pytest

from bert_tf.checkpoint import download
from bert_tf.files import text_lines

MODEL = "--model=model --output_dir=out"
ROWS = (
  (
    f"classifier {MODEL} --data_file=data/rows.csv --text_column=a",
    "--text_a_column",
    f"classifier {MODEL} --data_file=data/rows.csv --text_a_column=a",
  ),
  (
    f"classifier {MODEL} --data_file=data/rows.csv --epochs=1",
    "--num_train_epochs",
    f"classifier {MODEL} --data_file=data/rows.csv --num_train_epochs=1",
  ),
  (
    f"classifier {MODEL} --task_name=csv --data_dir=data/rows.csv",
    "Give its folder: data.",
    f"classifier {MODEL} --task_name=csv --data_dir=data",
  ),
  (
    f"classifier {MODEL} --data_file=data",
    "rows.csv",
    f"classifier {MODEL} --data_file=data/rows.csv",
  ),
  (
    f"clasifier {MODEL} --data_file=data/rows.csv",
    "Did you mean classifier?",
    f"classifier {MODEL} --data_file=data/rows.csv",
  ),
  (
    f"pretrain {MODEL}",
    "--input_file or --text",
    f"pretrain {MODEL} --text=data/rows.csv --train_hours=1",
  ),
  (
    "fill-mask --model=model",
    "--text or --input_file",
    "fill-mask --model=model --text=[MASK]",
  ),
  (
    "serve --model=a=model --model=model",
    "--model=NAME=model",
    "serve --model=a=model --model=b=model",
  ),
)


@pytest.fixture
def folder(tmp_path):
  (tmp_path / "data").mkdir()
  (tmp_path / "data" / "rows.csv").write_text("a,label\nb,c\n")
  (tmp_path / "model").mkdir()  # Every followed command gets as far as here.
  return tmp_path


@pytest.mark.parametrize(("mistake", "advice", "followed"), ROWS)
def test_advice_leads_past_the_mistake(
  mistake, advice, followed, folder, run_script
):
  result = run_script(*shlex.split(mistake), cwd=folder)
  assert result.returncode == 1
  assert advice in result.stderr
  next_step = run_script(*shlex.split(followed), cwd=folder)
  assert "model holds no model that can be read" in next_step.stderr


def test_the_command_for_latin_1_makes_a_file_that_can_be_read(folder):
  path = folder / "latin.txt"
  path.write_bytes("le café\n".encode("latin-1"))
  with pytest.raises(ValueError, match="iconv") as error:
    list(text_lines.read_lines(str(path)))
  command = str(error.value).partition("convert it: ")[2]
  subprocess.run(command, shell=True, check=True, cwd=folder)
  assert [*text_lines.read_lines(f"{folder}/utf8_latin.txt")] == ["le café"]


@pytest.mark.parametrize(
  ("model", "name"),
  [
    ("bert-base-uncased", "hf:google-bert/bert-base-uncased"),
    ("intfloat/e5-small", "hf:intfloat/e5-small"),
    ("uncased_L12_H768_A12", "uncased_L-12_H-768_A-12"),
    ("minilmm", "minilm"),
  ],
)
def test_the_name_to_download_is_one_that_download_takes(model, name):
  with pytest.raises(FileNotFoundError) as error:
    download.resolve_model(model)
  assert name in str(error.value)
  with pytest.raises(ValueError, match="bert-tf download"):
    download.resolve_model(name)
