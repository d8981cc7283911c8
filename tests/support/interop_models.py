"""Small saved models of all kinds, for tests of conversions."""

import json

import numpy as np
from safetensors import numpy as safetensors_numpy

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints, convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads

# Sizes: vocabulary, hidden, intermediate, heads, positions, layers, labels.
V, D, WIDE, N, P, LAYERS, LABELS = 23, 8, 12, 2, 10, 2, 3
CONFIG = modeling.BertConfig(
  vocab_size=V,
  hidden_size=D,
  num_hidden_layers=LAYERS,
  num_attention_heads=N,
  intermediate_size=WIDE,
  max_position_embeddings=P,
  type_vocab_size=2,
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS += [f"w{i}" for i in range(V - len(WORDS))]
VOCAB = "".join(f"{word}\n" for word in WORDS)

KINDS = {
  "encoder": modeling.BertModel,
  "pretraining": heads.PretrainingModel,
  "span": heads.SpanModel,
  "classifier": lambda config: heads.ClassifierModel(config, LABELS),
  "token": lambda config: heads.TokenModel(config, LABELS),
  "choice": heads.MultipleChoiceModel,
}
LABEL_MAPS = {
  "classifier": {
    "task_name": "own data",
    "problem_type": "multilabel",
    "labels": ["good", "bad", "schön"],
  },
  "token": {
    "task_name": "ner",
    "problem_type": "words",
    "labels": ["O", "B-LOC", "I-LOC"],
  },
}

# Two texts; the second one is padded.
IDS = np.array([[2, 7, 9, 3, 11, 3], [2, 8, 3, 0, 0, 0]], np.int32)
MASK = np.array([[1] * 6, [1] * 3 + [0] * 3], np.int32)
SEGMENTS = np.array([[0] * 4 + [1] * 2, [0] * 6], np.int32)
POSITIONS = np.array([[1, 4], [1, 0]], np.int32)


def random_values(shapes, seed=0):
  """Returns random values by name, large enough to affect the outputs."""
  rng = np.random.default_rng(seed)
  return {
    name: (rng.normal(size=shapes[name]) * 0.5).astype(np.float32)
    for name in sorted(shapes)
  }


def random_model(kind, config=CONFIG):
  """Returns a model of KINDS with random values for all variables."""
  model = KINDS[kind](config)
  values = random_values({v.path: tuple(v.shape) for v in model.weights})
  for variable in model.weights:
    variable.assign(values[variable.path])
  return model


def write_beside(folder, kind, config=CONFIG):
  """Writes the files that accompany a checkpoint."""
  folder.mkdir(exist_ok=True)
  (folder / "bert_config.json").write_text(config.to_json_string())
  (folder / "vocab.txt").write_text(VOCAB)
  if kind in LABEL_MAPS:
    text = json.dumps(LABEL_MAPS[kind], indent=2, ensure_ascii=False) + "\n"
    (folder / "label_map.json").write_text(text, encoding="utf-8")


def write_original(folder, kind, config=CONFIG):
  """Writes a checkpoint with Adam slots; returns its prefix and the model."""
  write_beside(folder, kind, config)
  model = random_model(kind, config)
  tensors = {v.path: v.numpy() for v in model.weights}
  slots = {f"{n}/adam_m": np.ones_like(t) for n, t in tensors.items()}
  state = {
    "global_step": np.int64(7),
    "loss_scale": np.float32(4),
    "loss_scale_good_steps": np.int32(1),
  }
  prefix = str(folder / "model.ckpt-7")
  checkpoints.write(prefix, {**tensors, **slots, **state})
  return prefix, model


def to_hf(tmp_path, kind, config=CONFIG):
  """Writes a model of a kind; returns the folder, its tensors and our model."""
  prefix, model = write_original(tmp_path / "in", kind, config)
  folder = tmp_path / "hf"
  convert.convert(ModelFolder.open(prefix), str(folder), "hf")
  path = folder / "model.safetensors"
  return folder, safetensors_numpy.load_file(path), model


def replace_weights(folder, tensors, name="model.safetensors", **config):
  """Replaces the weights of a folder, and values of its config; None: drops."""
  (folder / "model.safetensors").unlink()
  (folder / "run.json").unlink()
  safetensors_numpy.save_file(tensors, folder / name)
  path = folder / "config.json"
  values = {**json.loads(path.read_text()), **config}
  values = {key: value for key, value in values.items() if value is not None}
  path.write_text(json.dumps(values))


def outputs(model, kind):
  """Returns the outputs of a model for the two texts, by name."""
  features = {
    "input_ids": IDS,
    "input_mask": MASK,
    "segment_ids": SEGMENTS,
    "masked_lm_positions": POSITIONS,
  }
  if kind == "choice":
    features = {name: value[None] for name, value in features.items()}
  output = model(features)
  if kind == "encoder":
    names = ("sequence_output", "pooled_output")
    return {name: getattr(output, name).numpy() for name in names}
  if kind in ("pretraining", "span"):
    return {name: value.numpy() for name, value in output._asdict().items()}
  return {"logits": output.numpy()}


def loaded(kind, prefix, config=CONFIG):
  """Returns a model with a checkpoint's values; asserts that it has all."""
  model = KINDS[kind](config)
  assert (
    checkpoints.load_variables(
      checkpoints.CheckpointReader(prefix), model, "bert/"
    )
    == []
  )
  return model


def assert_close(actual, expected, atol=1e-5):
  """Asserts that outputs agree by name; ignores positions of padding."""
  assert actual.keys() == expected.keys()
  for name, value in expected.items():
    is_sequence = value.shape[:2] == MASK.shape and name != "masked_lm_logits"
    real = MASK == 1 if is_sequence else slice(None)
    np.testing.assert_allclose(
      actual[name][real], value[real], atol=atol, rtol=0, err_msg=name
    )
