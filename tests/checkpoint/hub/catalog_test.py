"""The table of models and data sets: addresses, sizes and files."""

import re

from bert_tf.checkpoint.hub import catalog
from bert_tf.tasks.classification import glue
from tests.support import checkout

SOURCES = catalog.list_sources()
RELEASED = [s for s in SOURCES if "/bert_models/" in s.links[0].url]


def test_the_33_checkpoints_of_the_release_and_the_data_are_known():
  assert len(RELEASED) == 33
  data = {source.name for source in SOURCES if not source.is_model}
  assert data == {
    *("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"),
    *("AX", "SQuAD-1.1", "SQuAD-2.0", "XNLI", "SWAG"),
  }
  assert len({s.name.lower() for s in SOURCES}) == len(SOURCES)


def test_the_links_of_models_are_those_of_the_documentation():
  text = (checkout.ROOT / "docs" / "models.md").read_text()
  links = re.findall(r"\((https://\S+/bert_models/\S+\.zip)\)", text)
  links = [link for link in links if "all_bert_models" not in link]
  assert sorted(links) == sorted(s.links[0].url for s in RELEASED)


def test_hashes_are_sha256_and_all_data_have_one():
  for source in SOURCES:
    for link in source.links:
      is_known = link.sha256 or not link.hashed
      assert not is_known or re.fullmatch("[0-9a-f]{64}", link.sha256)


def test_data_have_the_files_that_the_tasks_read():
  for source in SOURCES:
    if source.is_model or source.name.startswith("SQuAD"):
      continue
    needed = {"train.csv", "val.csv", "test.csv"}
    if source.name != "SWAG":
      layout = glue.get_task(source.name, xnli_language="en")
      needed = {split.file for split in layout.splits.values()}
    needed.discard("test_matched.tsv")  # Only needed to submit to GLUE.
    assert needed <= {*source.files}, source.name
