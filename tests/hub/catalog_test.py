"""The table of models and data sets: addresses, sizes, files, commands."""

import pathlib
import re
import shlex

import pytest

from bert_tf import model_size
from bert_tf.cli import main
from bert_tf.hub import catalog, released_models
from bert_tf.tasks.classification import glue
from bert_tf.tasks.swag import examples as swag
from tests.support import checkout, docs_pages, released_sizes

MODELS = (*released_models.BASE_AND_LARGE, *released_models.SMALL)


def test_the_33_checkpoints_of_the_release_and_the_data_are_known():
  assert len(MODELS) == 33
  data = {source.name for source in catalog.ALL if not source.is_model}
  assert data == {
    *("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"),
    *("AX", "SQuAD-1.1", "SQuAD-2.0", "XNLI", "SWAG"),
  }
  names = [name for s in catalog.ALL for name in (s.name, *s.other_names)]
  assert len({name.lower() for name in names}) == len(names)


def test_the_links_of_models_are_those_of_the_documentation():
  text = (checkout.ROOT / "docs" / "models.md").read_text()
  links = re.findall(r"\((https://\S+/bert_models/\S+\.zip)\)", text)
  links = [link for link in links if "all_bert_models" not in link]
  assert sorted(links) == sorted(s.links[0].url for s in MODELS)


def test_hashes_are_sha256_and_all_data_have_one():
  for source in catalog.ALL:
    hashes = [link.sha256 for link in source.links]
    if source.is_model:
      hashes = [source.file_sha256] * bool(source.file_sha256)
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in hashes)


@pytest.mark.parametrize("source", MODELS, ids=lambda source: source.name)
def test_the_size_of_a_checkpoint_follows_from_its_name(source):
  vocab_sizes = {"cased": 28996, "multi": 119547, "chinese": 21128}
  vocab_sizes |= {"multilingual": 105879, "wwm": 30522}
  vocab_sizes["wwm_cased"] = 28996
  kind = re.match(r"wwm_cased|[a-z]+", source.name)[0]
  num_layers, width = re.search(r"_L-(\d+)_H-(\d+)_", source.name).groups()
  config = released_sizes.make_config(
    int(num_layers), int(width), vocab_sizes.get(kind, 30522)
  )
  terms = (
    *model_size.encoder_parameters(config),
    *model_size.pretraining_parameters(config),
  )
  assert source.num_bytes == 4 * model_size.total(terms)


def test_data_have_the_files_that_the_tasks_read():
  for source in catalog.ALL:
    if source.is_model or source.name.startswith("SQuAD"):
      continue
    layout = swag.SWAG
    if source.name != "SWAG":
      layout = glue.get_task(source.name, xnli_language="en")
    splits = (layout.train, layout.dev, layout.test)
    needed = {getattr(split, "file", split) for split in splits if split}
    needed.discard("test_matched.tsv")  # Only needed to submit to GLUE.
    assert needed <= {*source.files}, source.name


@pytest.mark.parametrize(
  "command", sorted({s.next_command.split("=")[0] for s in catalog.ALL})
)
def test_the_next_commands_have_known_flags(command):
  for source in catalog.ALL:
    if not source.next_command.startswith(command):
      continue
    program, name, *words = shlex.split(source.next_command)
    assert program == "bert-tf"
    module = f"bert_tf.cli.{main.COMMANDS[name]}"
    flags = {word[2:].split("=")[0] for word in words}
    assert flags <= docs_pages.flag_names(module), source.name
    folders = [word for word in words if "{folder}" in word]
    names = {pathlib.PurePath(folder).name for folder in folders}
    assert source.is_model or names <= {"--data_dir={folder}", *source.files}
    assert source.is_model or folders
