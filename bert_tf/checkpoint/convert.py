"""Converts models to the original's or Hugging Face's format."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import modeling, task_registry, tokenization
from bert_tf.checkpoint import (
  checkpoint_names,
  checkpoints,
  hugging_face,
  run_info,
  sentence_transformers,
)
from bert_tf.checkpoint.checkpoints import CheckpointReader
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import (
  atomic,
  json_files,
  messages,
  packages,
  paths,
  tokenizer_files,
)
from bert_tf.model import heads, hugging_face_config


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model: config, tensors, task, labels and vocabulary."""

  config: modeling.BertConfig
  own_heads: tuple[heads.Head, ...]  # The heads that it has tensors for.
  # float32 arrays of encoder, pooler and heads, by the original's names.
  tensors: Mapping[str, np.ndarray]
  # Variables that BERT does not have, which other formats cannot hold.
  others: Mapping[str, np.ndarray]
  # The task, the labels and the settings of the tokenizer, if known.
  run: run_info.RunInfo
  vocab: bytes | None  # The content of vocab.txt.
  # The files of a sentence encoder, by path, which give its pooling.
  encoder_files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

  @property
  def num_labels(self) -> int:
    """The number of outputs of `output_weights`; 0 without this head."""
    return len(self.tensors.get("output_bias", ()))

  def describe(self) -> dict[str, bytes]:
    """Returns the contents of run.json and other files beside the weights."""
    files = run_info.describe(self.run, self.config, self.vocab)
    return {**self.encoder_files, **files}


def read_pretrained(files: ModelFolder, average_last: int = 1) -> Pretrained:
  """Reads a model of any format, without an optimizer's state.

  Its task is the one that the heads among the tensors belong to.

  Args:
    files: the model.
    average_last: the number of the folder's newest checkpoints whose mean is
      the model; 1 for the model alone.

  Raises:
    ValueError: if there are too few checkpoints, if tensors are missing, or
      have a wrong shape or dtype, if the user's do_lower_case contradicts the
      vocabulary, or if the head has another number of labels.
  """
  config, num_labels = files.config, files.shapes.get("output_bias", (0,))[0]
  with tf.Graph().as_default():  # Names and shapes only: no memory.
    variables = modeling.BertModel(config).weights
  sizes: dict[int | str, int]
  sizes = {"D": config.hidden_size, "V": config.vocab_size, "C": num_labels}
  expected = {v.path: tf.TensorSpec(v.shape) for v in variables} | {
    name: tf.TensorSpec([int(sizes.get(n, n)) for n in shape])
    for head in files.heads
    for name, shape in head.shapes.items()
  }
  assert files.reader
  readers = [files.reader]
  if average_last > 1:
    readers = _open_newest(files.folder, average_last)
  for reader in readers:
    missing = [name for name in expected if name not in reader.shapes]
    checkpoint_names.check_fits(reader.path, reader.shapes, expected, missing)
  # In float64, the mean of equal values is exactly this value.
  tensors = {}
  for name in expected:
    values = [reader.get_floats(name) for reader in readers]
    mean = np.mean(values, axis=0, dtype=np.float64)
    tensors[name] = np.asarray(mean, np.float32)
  names = {*checkpoint_names.parameters(files.shapes)} - expected.keys()
  if files.reader.format != "original":
    _warn_of_left_out(names)
    names = set()
  others = {name: files.reader.get(name) for name in names}
  if files.vocab_file:
    tokenizer_files.warn_of_differing(files.vocab_file)
  run = files.saved or run_info.RunInfo(task=task_registry.ENCODER.name)
  if average_last > 1:  # Its scores are those of other weights.
    run = dataclasses.replace(run, scores={})
  settings = dataclasses.replace(run.settings, **vars(files.case))
  run = dataclasses.replace(run, settings=settings)
  # Only the user knows the head of a task that is not registered.
  if run.task in task_registry.TASKS:
    head_model = heads.find_model(files.heads, run.task)
    task = task_registry.find(head_model.task if head_model else "encoder")
    labels = run.labels if task.label_defaults else None
    run = dataclasses.replace(run, task=task.name, labels=labels)
  if run.labels and run.labels.num_outputs != num_labels:
    raise ValueError(
      f"{len(run.labels.labels)} labels are saved beside {files.weights}, but "
      f"its head has {num_labels} outputs."
    )
  encoder_files = sentence_transformers.read_files(files.folder)
  if not encoder_files and getattr(run.settings, "pooling", None):
    encoder_files = sentence_transformers.describe(
      run.settings, config.hidden_size
    )
  return Pretrained(
    config,
    files.heads,
    tensors,
    others,
    run,
    files.vocab_content,
    encoder_files,
  )


def _open_newest(folder: str, number: int) -> list[CheckpointReader]:
  listed = checkpoints.list_checkpoints(folder)
  # Step 0 is untrained, and so would only spoil the mean.
  trained = [prefix for prefix in listed if not prefix.endswith("-0")]
  if len(trained) < number:
    raise ValueError(
      f"`average_last={number}` needs as many trained checkpoints, but "
      f"{folder} has {len(trained)}."
    )
  return [CheckpointReader(prefix) for prefix in trained[:number]]


def _warn_of_left_out(names: Iterable[str]) -> None:
  """Warns of variables that a format cannot hold."""
  if left_out := messages.join_names(sorted(names)):
    logging.warning("BERT has no %s, so they are left out.", left_out)


def write_original(model: Pretrained, path: str) -> None:
  """Writes a checkpoint of the original, and the other files beside it."""
  _write_files(os.path.dirname(path) or ".", model.describe())
  checkpoints.write(path, {**model.tensors, **model.others})


def _write_files(folder: str, contents: Mapping[str, bytes]) -> None:
  """Writes files; ValueError if there are any with other content."""
  for name, content in contents.items():
    path = os.path.join(folder, name)
    if paths.exists(path) and paths.read_bytes(path) != content:
      raise ValueError(
        f"{path} belongs to another model; choose another `output_checkpoint`."
      )
  run_info.write_files(folder, contents)


def convert(
  source: ModelFolder,
  target: str,
  target_format: str = "original",
  average_last: int = 1,
) -> Pretrained:
  """Writes a model of any format in another one, without optimizer's state.

  Args:
    source: the model to read.
    target: the prefix of a checkpoint of the original, with run.json, config
      and vocabulary beside it; for "hf", a folder.
    target_format: "original", or "hf" for Hugging Face's.
    average_last: see `read_pretrained`.

  Returns:
    The model as it is written.

  Raises:
    ValueError: as `read_pretrained`, if the target format cannot hold the
      model, or if the target has other files or is the source.
    ImportError: for hf, without the package safetensors.
  """
  inputs = [str(source.weights), *checkpoints.list_checkpoints(source.folder)]
  if os.path.abspath(target) in map(os.path.abspath, inputs):
    raise ValueError(f"`output_checkpoint` {target} is a checkpoint to read.")
  model = read_pretrained(source, average_last)
  if target_format == "hf":
    model.config.check_bidirectional(str(source.weights))
    _write_hugging_face(model, target)
  elif os.path.abspath(os.path.dirname(target)) == os.path.abspath(
    source.folder
  ):  # The other files are there already.
    checkpoints.write(target, {**model.tensors, **model.others})
  else:
    write_original(model, target)
  return model


def _write_hugging_face(model: Pretrained, folder: str) -> None:
  """Writes a folder that `from_pretrained` of Hugging Face's classes can load.

  The folder may hold an earlier conversion of the same model.
  """
  with packages.needs_extra(hugging_face.WEIGHTS, extra="hf"):
    from safetensors import numpy as safetensors

  if (temperature := model.run.temperature) != 1:  # transformers has none.
    names = ("output_weights", "output_bias")
    scaled = {name: model.tensors[name] / temperature for name in names}
    scores = {**model.run.scores, "temperature": 1.0}
    run = dataclasses.replace(model.run, scores=scores)
    tensors = {**model.tensors, **scaled}
    model = dataclasses.replace(model, tensors=tensors, run=run)
  if model.vocab is None:
    raise ValueError("Hugging Face's format needs a `vocab_file`.")
  vocab = tokenization.parse_vocab(model.vocab, run_info.VOCAB_FILE)
  if lacking := [t for t in tokenization.SPECIAL_TOKENS if t not in vocab]:
    raise ValueError(
      f"Hugging Face's format needs {lacking[0]}, which the vocabulary lacks."
    )
  _warn_of_left_out(model.others)
  tokenizer_config = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": model.run.settings.do_lower_case is not False,
    "strip_accents": model.run.settings.strip_accents,
    **tokenizer_files.FIXED_SETTINGS,
    **tokenizer_files.SPECIAL_TOKENS,
    "model_max_length": model.config.max_position_embeddings,
  }
  described = {
    hugging_face_config.CONFIG: _config(model, vocab),
    tokenizer_files.TOKENIZER_CONFIG: tokenizer_config,
    tokenizer_files.TOKENIZER: _tokenizer(model.run, vocab),
  }
  contents = {n: json_files.encode_file(v) for n, v in described.items()}
  contents |= model.describe()
  own = {*contents, hugging_face.WEIGHTS, *run_info.FILES}
  own |= {name.split("/")[0] for name in model.encoder_files}
  run_info.check_own_files(folder, [*own])  # transformers might load others.
  # transformers omits the encoder's prefix if a model has no head.
  prefix = "bert." if model.own_heads else ""
  tensors = {
    hugging_face.hugging_face_name(name, prefix): np.ascontiguousarray(
      value.T if name.endswith("/kernel") else value
    )
    for name, value in model.tensors.items()
  }
  if heads.CHOICES in model.own_heads:
    tensors[hugging_face.CHOICE_BIAS] = np.zeros(1, np.float32)
  # transformers refuses files without this key.
  data = safetensors.save(tensors, metadata={"format": "pt"})
  _write_files(folder, contents)
  atomic.write_bytes(os.path.join(folder, hugging_face.WEIGHTS), data)


def _config(model: Pretrained, vocab: Mapping[str, int]) -> dict[str, Any]:
  classes = [head.hugging_face for head in model.own_heads] or ["BertModel"]
  if model.own_heads == heads.PretrainingModel.heads:
    classes = ["BertForPreTraining"]
  if len(classes) > 1:
    raise ValueError(
      f"No class of transformers has the heads of {' and '.join(classes)}."
    )
  activations = {"gelu_erf": "gelu", "gelu": "gelu_new", "": "linear"}
  hidden_act = (model.config.hidden_act or "").lower()
  keys = modeling.BertConfig.original_keys()
  config: dict[str, Any] = {
    **{key: getattr(model.config, key) for key in (*keys, "layer_norm_eps")},
    **hugging_face_config.FIXED_SETTINGS,
    "architectures": classes,
    "hidden_act": activations.get(hidden_act, hidden_act),
    "pad_token_id": vocab["[PAD]"],
  }
  if heads.CHOICES in model.own_heads or model.num_labels:
    config["classifier_dropout"] = heads.CLASSIFIER_DROPOUT
  if model.num_labels:
    spec = model.run.labels
    labels = spec.labels if spec else ()
    labels = labels or hugging_face_config.numbered_labels(model.num_labels)
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    if spec and spec.problem_type in hugging_face_config.PROBLEM_TYPES:
      problem_type = hugging_face_config.PROBLEM_TYPES[spec.problem_type]
      config["problem_type"] = problem_type
    if spec and spec.problem_type == run_info.RANKING:
      activation = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
      config["sentence_transformers"] = activation
  return config


def _tokenizer(
  run: run_info.RunInfo, vocab: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the tokenizer.json of BERT's tokenizer with a vocabulary."""
  # transformers writes 100 as the maximum length of a word, not 200.
  template = pathlib.Path(__file__).with_name("tokenizer.json")
  tokenizer = json_files.read(str(template))
  tokenizer["model"]["vocab"] = vocab
  tokenizer["normalizer"]["lowercase"] = run.settings.do_lower_case is not False
  tokenizer["normalizer"]["strip_accents"] = run.settings.strip_accents
  for token in tokenizer["added_tokens"]:
    token["id"] = vocab[token["content"]]
  tokenizer["added_tokens"].sort(key=lambda token: token["id"])
  for name, end in tokenizer["post_processor"]["special_tokens"].items():
    end["ids"] = [vocab[name]]
  return tokenizer
