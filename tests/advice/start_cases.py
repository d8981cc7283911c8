"""Advice about the checkpoints and heads that runs start from."""

import json
import pathlib

import numpy as np
import safetensors.numpy

from bert_tf import checkpoint_names, checkpoints, heads
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.layers import lora
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from bert_tf.training import evaluation, restore
from tests.advice import export_cases, run_cases, training_cases
from tests.advice.following import Case, Returned, Warned

CONFIG = training_cases.CONFIG
WORDS = checkpoint_names.WORD_EMBEDDINGS


def check_names(*names):
  checkpoint_names.check_is_bert(
    "m.ckpt", checkpoint_names.original_names(names)
  )


def start(world, **values):
  """Chooses the initial weights of a run with the classifier's labels."""
  world.write("train.csv", "text,label\na,good\nb,<b>bad</b>\nc,so so\n")
  world.write("dev.csv", "text,label\na,good\n")
  setup = fine_tuning.load(training_cases.texts(world, **values))
  task = classification.make_task(setup, None)
  fine_tuning._read(setup, task)
  return fine_tuning._with_start(setup, task, setup.config.train)


def write_lora(world, folder, rank, alpha):
  """Checks LoRA settings against a checkpoint with alpha 7."""
  path = pathlib.Path(world.path(folder))
  if not path.exists():
    checkpoints.write(str(path / "model.ckpt-1"), {lora.ALPHA: np.float32(7)})
    (path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
  restore.check_lora_alpha(str(path), rank, alpha)


def infer(world, output_dir=None, **values):
  config = training_config.TrainConfig(
    output_dir=output_dir or world.path("out"), **values
  )
  model = heads.ClassifierModel(CONFIG, 3)
  restore.load_for_inference(model, config)


def without_step(world):
  """Returns a folder whose checkpoint has only parameters, and no step."""
  folder = world.copy("classifier")
  reader = checkpoints.CheckpointReader(world.model("classifier"))
  names = checkpoint_names.parameters(reader.shapes)
  checkpoints.write(
    f"{folder}/model.ckpt-1", {name: reader.get(name) for name in names}
  )
  return folder


def check_head(path, num_outputs=3):
  restore.check_has_head(path, "output_weights", True, num_outputs)


def damaged(world):
  """Returns a run with two checkpoints; the newer index is cut short."""
  folder = pathlib.Path(world.copy("two_steps"))
  names = [f"model.ckpt-{step}" for step in (1, 2)]
  lines = [f'all_model_checkpoint_paths: "{name}"' for name in names]
  lines.insert(0, f'model_checkpoint_path: "{names[-1]}"')
  (folder / "checkpoint").write_text("\n".join(lines))
  index = folder / "model.ckpt-2.index"
  index.write_bytes(index.read_bytes()[:9])
  return str(folder)


def history(world, *names):
  """Resumes periodic evaluation after one evaluation with these results."""
  results = dict.fromkeys(("global_step", *names), 1.0)
  content = {"metric": "loss", "evaluations": [results]}
  path = f"out/{evaluation.BEST_DIR}/{evaluation.HISTORY_FILE}"
  world.write(path, json.dumps(content))
  run_cases.periodic(world, "loss")


def typed(world, dtype):
  """Reads a Hugging Face model whose tensors have a dtype."""
  path = pathlib.Path(world.path("hf"), hugging_face.WEIGHTS)
  if not path.exists():
    export_cases.to(world, "hf", world.model("encoder"))
  tensors = safetensors.numpy.load_file(path)
  tensors = {name: value.astype(dtype) for name, value in tensors.items()}
  safetensors.numpy.save_file(tensors, path)
  hugging_face.Reader(str(path))


CASES = (
  Returned(
    "checkpoint_names _description",
    ("m.ckpt", "ELECTRA"),
    lambda w: check_names(f"electra/{WORDS[5:]}"),
    lambda w: check_names(WORDS),
  ),
  Returned(
    "checkpoint_names _description",
    ("2 BERTs", "new/", "old/"),
    lambda w: check_names(f"new/{WORDS}", f"old/{WORDS}"),
    lambda w: check_names(f"old/{WORDS}"),
  ),
  Returned(
    "checkpoint_names _description",
    ("my/embeddings", WORDS),
    lambda w: check_names("my/embeddings/word_embeddings"),
    lambda w: check_names(WORDS),
  ),
  Returned(
    "checkpoints __str__",
    ("model.ckpt-2", "model.ckpt-1"),
    lambda w: checkpoints.CheckpointReader(f"{damaged(w)}/model.ckpt-2"),
    lambda w: checkpoints.CheckpointReader(f"{damaged(w)}/model.ckpt-1"),
  ),
  Case(
    "formats.tokenizer_files read_vocab",
    ("tokenizer.json", "vocab.txt"),
    lambda w: tokenizer_files.read_vocab(w.write("tokenizer.json", "{}")),
    lambda w: tokenizer_files.read_vocab(w.model("encoder") + "/vocab.txt"),
  ),
  Case(
    "formats.hugging_face _check_types",
    ("model.safetensors", "U16"),
    lambda w: typed(w, np.uint16),
    lambda w: (typed(w, np.float32), typed(w, np.float16)),
  ),
  Case(
    "training.config __post_init__",
    ("encoder_only", "init_checkpoint"),
    lambda w: training_config.TrainConfig(output_dir="o", encoder_only=True),
    lambda w: training_config.TrainConfig(
      output_dir="o", encoder_only=True, init_checkpoint="c"
    ),
  ),
  Case(
    "training.evaluation _read_history",
    ("evaluations.json", "loss", "output_dir"),
    history,
    lambda w: run_cases.periodic(w, "loss", "other"),
  ),
  Warned(
    "training.restore _warn_of_random",
    ("output_weights", "do_train"),
    lambda w: infer(w, init_checkpoint=w.model("encoder")),
    lambda w: infer(w, init_checkpoint=w.model("classifier")),
  ),
  Case(
    "training.restore check",
    ("lora_alpha=7", "2", "output_dir"),
    lambda w: write_lora(w, "out", 2, None),
    lambda w: (
      write_lora(w, "out", 2, 7.0),
      restore.check_lora_alpha(w.path("other"), 2, None),
    ),
  ),
  Case(
    "training.restore check",
    ("encoder", "output_weights", "output_dir"),
    lambda w: check_head(w.model("encoder")),
    lambda w: check_head(w.path("other")),
  ),
  Case(
    "training.restore check",
    ("model.ckpt-1", "3", "2", "output_dir"),
    lambda w: check_head(w.model("classifier"), 2),
    lambda w: check_head(w.path("other"), 2),
  ),
  Case(
    "tasks.start_model check_is_trained",
    ("out", "do_train", "init_checkpoint"),
    lambda w: start(w, do_eval=True),
    lambda w: (
      start(w, do_eval=True, do_train=True),
      start(w, do_eval=True, init_checkpoint=w.model("classifier")),
    ),
  ),
  Case(
    "tasks.start_model check_is_trained",
    ("output_weights", "do_train"),
    lambda w: start(w, do_eval=True, init_checkpoint=w.model("encoder")),
    lambda w: start(w, do_train=True, init_checkpoint=w.model("encoder")),
  ),
  Case(
    "training.restore load",
    ("model.ckpt-1", "global_step", "init_checkpoint", "output_dir"),
    lambda w: infer(w, without_step(w)),
    lambda w: infer(w, init_checkpoint=without_step(w)),
  ),
  Case(
    "tasks.start_model takes_head",
    ("encoder_only", "classifier", "do_train"),
    lambda w: start(
      w,
      do_eval=True,
      encoder_only=True,
      init_checkpoint=w.model("classifier"),
    ),
    lambda w: (
      start(
        w,
        do_train=True,
        encoder_only=True,
        init_checkpoint=w.model("classifier"),
      ),
      start(w, do_eval=True, init_checkpoint=w.model("classifier")),
    ),
  ),
)
