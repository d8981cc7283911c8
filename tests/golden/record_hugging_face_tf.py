"""Records hugging_face_tf.tar.xz: small models of transformers 4 and outputs.

Run from the root of the checkout, in an environment of its own:

  pip install 'transformers<5' tensorflow-cpu==2.19.* tf-keras==2.19.*
  TF_USE_LEGACY_KERAS=1 python tests/golden/record_hugging_face_tf.py
"""

import pathlib
import tarfile
import tempfile

import numpy as np
import transformers

CLASSES = (
  "BertModel",
  "BertForPreTraining",
  "BertForMaskedLM",
  "BertForNextSentencePrediction",
  "BertForSequenceClassification",
  "BertForMultipleChoice",
  "BertForTokenClassification",
  "BertForQuestionAnswering",
)
# Mostly as in tests/support/interop_models.py, which needs another Keras.
SIZES = {
  "vocab_size": 23,
  "hidden_size": 8,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 12,
  "max_position_embeddings": 256,
}
IDS = [[2, 7, 9, 3, 11, 3], [2, 8, 3, 0, 0, 0]]
MASK = [[1] * 6, [1] * 3 + [0] * 3]
SEGMENTS = [[0] * 4 + [1] * 2, [0] * 6]


def record(name: str, folder: pathlib.Path, **settings: str) -> None:
  """Writes a random model with save_pretrained, and its outputs."""
  num_labels = 3 if name.endswith("Classification") else 2
  config = transformers.BertConfig(**SIZES, num_labels=num_labels, **settings)
  model = getattr(transformers, f"TF{name}")(config)
  inputs = {
    "input_ids": np.array(IDS),
    "attention_mask": np.array(MASK),
    "token_type_ids": np.array(SEGMENTS),
  }
  if name == "BertForMultipleChoice":
    inputs = {key: value[None] for key, value in inputs.items()}
  model(inputs)
  rng = np.random.default_rng(0)
  shapes = [value.shape for value in model.get_weights()]
  model.set_weights([rng.normal(size=shape) * 0.5 for shape in shapes])
  outputs = {key: value.numpy() for key, value in model(inputs).items()}
  model.save_pretrained(folder, safe_serialization=False)
  np.savez(folder / "outputs.npz", **outputs)


if __name__ == "__main__":
  target = pathlib.Path(__file__).parent / "hugging_face_tf.tar.xz"
  with (
    tempfile.TemporaryDirectory() as root,
    tarfile.open(target, "w:xz") as archive,
  ):
    for name in CLASSES:
      record(name, pathlib.Path(root, name))
      archive.add(f"{root}/{name}", name)
    folder = pathlib.Path(root, "gelu_new")
    record("BertModel", folder, hidden_act="gelu_new")
    archive.add(folder, folder.name)
