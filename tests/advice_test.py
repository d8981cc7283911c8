"""Advice of error messages is followed to the letter, and then it works.

Each row is a mistake, what its error advises, and the command of a user who
follows it. That command either succeeds or is stopped by the next check.
"""

import shlex
import shutil
import subprocess

import pytest

import bert_tf
from bert_tf.checkpoint import download
from bert_tf.files import text_lines
from tests.support import docs_files

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


ROWS_FILE = "--data_file=rows.csv --text_a_column=a --label_column=label"
TRAIN = (
  f"classifier {ROWS_FILE} --model=tiny --max_seq_length=16 "
  "--train_batch_size=4"
)
CREATE = (
  "create-pretraining-data --vocab_file=tiny/vocab.txt --max_seq_length=16"
)
PRETRAIN = "pretrain --input_file=records --max_seq_length=16"
# A mistake with a model, the advice, and the flags or words that it adds. The
# command of a user who follows it succeeds.
FOLLOWED = (
  (f"{TRAIN} --output_dir=a --eval_fraction=0", "off --do_eval", "--nodo_eval"),
  (f"{TRAIN} --output_dir=a --do_eval", "Set --do_train", "--do_train"),
  (
    f"{TRAIN} --output_dir=a --class_weights=1",
    "Give `balanced`",
    "--class_weights=balanced",
  ),
  (f"{TRAIN} --output_dir=a --freeze_layers=9", "Lower", "--freeze_layers=1"),
  (
    f"{TRAIN} --output_dir=a --gradient_accumulation_steps=3",
    "--train_batch_size to a multiple of 3",
    "--train_batch_size=6",
  ),
  (
    f"{TRAIN} --output_dir=a --text_b_column=b --long_text=windows",
    "--long_text=truncate",
    "--long_text=truncate",
  ),
  (
    TRAIN.replace("rows.csv", "rows.txt") + " --output_dir=a",
    "Set --task_name",
    "--task_name=csv",
  ),
  (
    f"{CREATE} --input_file=text.txt --output_file=text.txt "
    "--max_predictions_per_seq=3",
    "choose another",
    "--output_file=other.tfrecord",
  ),
  (
    "build-corpus --input_file=folder --output_file=corpus.txt",
    "folder/*",
    "--input_file=folder/*",
  ),
  (
    f"{PRETRAIN} --bert_config_file=tiny/bert_config.json --output_dir=a "
    "--do_train --num_train_steps=1 --max_predictions_per_seq=3",
    "Set --vocab_file",
    "--vocab_file=tiny/vocab.txt",
  ),
  (
    f"{PRETRAIN} --model=tiny --output_dir=a --do_train --num_train_steps=1 "
    "--max_predictions_per_seq=30",
    "Lower it",
    "--max_predictions_per_seq=3",
  ),
  (
    f"{PRETRAIN} --model=tiny --output_dir=a --max_predictions_per_seq=3 "
    "--num_train_steps=1",
    "--do_train",
    "--do_train",
  ),
  (
    "extract-features --model=tiny --input_file=text.txt --output_file=out "
    "--layers=",
    "such as -1",
    "--layers=-1",
  ),
  (
    "extend-vocab --model=tiny --words_file=words.txt --output_dir=longer",
    "use the method grow",
    "--method=grow",
  ),
  (
    "export --model=run --export_dir=folder",
    "choose another",
    "--export_dir=b",
  ),
  (
    f"{TRAIN} --output_dir=a --num_train_epochs=0.1",
    "Raise it",
    "--num_train_epochs=1",
  ),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """A folder with a small model, a classifier, and files for both."""
  folder = tmp_path_factory.mktemp("models")
  docs_files.write_model(folder / "tiny")
  model = bert_tf.ClassifierModel.from_pretrained(folder / "tiny", num_labels=2)
  model.save_pretrained(folder / "run", labels=["x", "y"])
  rows = [f"{a} of the,in {a},{'xy'[i % 2]}" for i, a in enumerate("bcdefghi")]
  for name in ("rows.csv", "rows.txt"):
    (folder / name).write_text("\n".join(["a,b,label", *rows]) + "\n")
  (folder / "folder").mkdir()
  for name in ("text.txt", "folder/text.txt"):
    (folder / name).write_text("the of and in\nto was he is\n\nas for on\n" * 4)
  (folder / "words.txt").write_text("\n".join(f"word{i}" for i in range(20)))
  return folder


@pytest.mark.parametrize(("mistake", "advice", "followed"), FOLLOWED)
def test_a_command_that_follows_the_advice_succeeds(
  mistake, advice, followed, models, tmp_path, run_script
):
  shutil.copytree(models, tmp_path, dirs_exist_ok=True)
  if "records" in mistake:
    made = f"{CREATE} --input_file=text.txt --output_file=records --nomask"
    assert not run_script(*shlex.split(made), cwd=tmp_path).returncode
  result = run_script(*shlex.split(mistake), cwd=tmp_path)
  assert result.returncode == 1
  assert advice in result.stderr.splitlines()[-1]
  result = run_script(*shlex.split(mistake), followed, cwd=tmp_path)
  assert result.returncode == 0, result.stderr


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
