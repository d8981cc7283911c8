"""Tests that an export follows its settings and the run.json of its run."""

import pytest

from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.inference import ids_functions
from bert_tf.inference.config import ModelConfig
from bert_tf.model import heads
from tests.support import run_infos, tiny_models


@pytest.mark.parametrize(
  ("is_cased", "names"), [(True, ["text", "text_b"]), (False, ["text"])]
)
def test_an_export_has_the_letter_case_and_the_inputs_of_its_run(
  tmp_path, is_cased, names
):
  model = tiny_models.widen(heads.ClassifierModel(tiny_models.CONFIG, 3))
  folder = tiny_models.write_run(tmp_path / "run", model)
  info = run_infos.make(
    task="classification",
    do_lower_case=not is_cased,
    max_seq_length=24,
    labels=("no", "yes", "maybe"),
    is_pair=len(names) > 1,
  )
  vocab_file = str(folder / "vocab.txt")
  run_infos.write(str(folder), info, tiny_models.CONFIG, vocab_file)
  built = export.build(ModelConfig(init_checkpoint=str(folder)))
  [ids] = built.module.tokenizer.tokenize(["The the"]).to_list()
  assert ids == built.files.tokenizer.tokenize_to_ids("The the")
  assert (ids[0] == ids[-1]) is not is_cased
  default = built.signatures[ids_functions.DEFAULT]
  assert [spec.name for spec in default.input_signature] == names


def test_only_other_runtimes_quantize():
  with pytest.raises(ValueError, match="`quantize=int8` needs `runtime=onnx`"):
    ExportConfig(init_checkpoint="run", export_dir="new", quantize="int8")
