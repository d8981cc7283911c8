"""Run folders from an earlier version, and measurements of them.

`tests/golden/README.md` says how they were written. Only public interfaces are
used: the scripts, `bert_tf.load` and TensorFlow's own reader of checkpoints.
"""

import dataclasses
import json
import pathlib
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import bert_tf

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden" / "run_folders"
ARCHIVE = FOLDER / "run_folders.tar.xz"
EXPECTED = FOLDER / "expected.json"

# Flags of every training. A later version may draw other dropout bits, so the
# recorded model has no dropout: see `data/bert_config.json`.
TRAINING = (
  "--do_train",
  "--learning_rate=1e-2",
  "--train_batch_size=4",
  "--use_xla=false",
)
MODEL = (
  "--bert_config_file=data/bert_config.json",
  "--vocab_file=data/vocab.txt",
)
PREDICTION = ("--do_eval", "--do_predict")
CLASSIFIER = (*MODEL, *PREDICTION, "--data_dir=data", "--max_seq_length=16")


@dataclasses.dataclass(frozen=True)
class Run:
  """A run that can be resumed, and inputs for its model.

  By default, 12 examples are trained on for 6 steps and then for 6 more.
  """

  script: str  # In run_scripts/.
  flags: tuple[str, ...]  # Of the recorded command and of the resuming one.
  files: tuple[str, ...]  # Result files that the resuming command writes.
  rows: tuple[Any, ...]  # Inputs of `bert_tf.load(folder).predict`.
  recorded: tuple[str, ...] = ("--num_train_epochs=2",)
  resumed: tuple[str, ...] = ("--num_train_epochs=4",)

  def command(self, name: str, own_flags: tuple[str, ...]) -> list[str]:
    """Returns the script's name and arguments."""
    flags = [*TRAINING, *self.flags, *own_flags, f"--output_dir={name}"]
    return [self.script, *flags]


TEXTS = ("the red fox runs", "a cold river", "she sings and it rains")
PAIRS = (
  ("the red fox runs", "the fox runs"),
  ("a cold river", "she sings in the old town"),
)
RESULTS = ("eval_results.txt", "test_results.tsv")
RUNS = {
  "pretraining": Run(
    "run_pretraining.py",
    (
      *MODEL,
      "--input_file=data/train.tfrecord",
      "--max_seq_length=16",
      "--max_predictions_per_seq=3",
      "--num_warmup_steps=2",
      "--save_checkpoints_steps=3",
      "--keep_checkpoint_max=2",
    ),
    files=("eval_results.txt",),
    rows=("the red [MASK] runs.", "she [MASK] in the old [MASK]."),
    recorded=("--num_train_steps=6",),
    resumed=("--num_train_steps=10", "--do_eval", "--max_eval_steps=3"),
  ),
  "classifier": Run(
    "run_classifier.py", (*CLASSIFIER, "--task_name=csv"), RESULTS, TEXTS
  ),
  "pair_regression": Run(
    "run_classifier.py",
    (
      *CLASSIFIER,
      "--task_name=tsv",
      "--problem_type=regression",
      "--text_b_column=text_b",
    ),
    RESULTS,
    PAIRS,
  ),
  "multilabel": Run(
    "run_classifier.py",
    (*CLASSIFIER, "--task_name=jsonl", "--problem_type=multilabel"),
    RESULTS,
    TEXTS,
  ),
  "lora": Run(
    "run_classifier.py",
    (
      *CLASSIFIER[len(MODEL) :],
      "--model=pretraining",
      "--task_name=csv",
      "--lora_rank=2",
      "--lora_alpha=4",
    ),
    RESULTS,
    TEXTS,
  ),
  "best": Run(
    "run_classifier.py",
    (*CLASSIFIER, "--task_name=csv", "--eval_every_steps=2"),
    RESULTS,
    TEXTS,
  ),
  "squad": Run(
    "run_squad.py",
    (
      *MODEL,
      "--train_file=data/squad.json",
      "--predict_file=data/squad.json",
      "--version_2_with_negative",
      "--max_seq_length=24",
      "--max_query_length=8",
      "--doc_stride=6",
      "--n_best_size=3",
      "--max_answer_length=4",
      "--do_predict",
    ),
    ("predictions.json", "null_odds.json", "eval_results.txt"),
    (
      ("who sings ?", "the red fox runs . she sings in the old town ."),
      ("what runs ?", "it rains . " * 6 + "the dog runs ."),
    ),
  ),
  "ner": Run(
    "run_ner.py",
    (*MODEL, *PREDICTION, "--data_dir=data", "--max_seq_length=12"),
    ("eval_results.txt", "test_predictions.txt"),
    (
      "ada sings in rome",
      "the fox runs and ada lee sleeps in the old town",
    ),
  ),
  "swag": Run(
    "run_swag.py",
    (*MODEL, *PREDICTION, "--data_dir=data/swag", "--max_seq_length=16"),
    RESULTS,
    (("it rains", ["the fox runs", "she sings", "a cold river", "it rains"]),),
  ),
}

# Inputs for the model in each folder.
ROWS = {
  **{name: run.rows for name, run in RUNS.items()},
  "best/best": TEXTS,
  "original": TEXTS,
  "hf": TEXTS,
  "back": TEXTS,
  "saved_model": TEXTS,
}

# Commands that evaluate and predict without training, by output_dir.
EVALUATIONS = {
  "best/best": (
    "run_classifier.py",
    *PREDICTION,
    "--data_dir=data",
    "--task_name=csv",
    "--output_dir=best/best",
  ),
  "adapted": (
    "run_classifier.py",
    *PREDICTION,
    "--data_dir=data",
    "--task_name=csv",
    "--max_seq_length=16",
    "--model=pretraining",
    "--lora_adapter=lora",
    "--output_dir=adapted",
  ),
}

# Results and variables that are only checked for presence. Correlations of
# nearly equal predictions amplify rounding. The gradient of these biases is
# only rounding error, since a constant does not change a softmax.
CORRELATIONS = ("pearson", "spearman")
WITHOUT_GRADIENT = ("key/bias", "cls/squad/output_bias")

# Runs `[script, *arguments]` in a folder; raises if the script fails.
Runner = Callable[[list[str], pathlib.Path], None]


def unpack(folder: pathlib.Path) -> None:
  """Extracts the recorded folders and their data."""
  with tarfile.open(ARCHIVE) as archive:
    archive.extractall(folder, filter="data")


def answers(folder: pathlib.Path, rows: tuple[Any, ...]) -> list[Any]:
  """Returns the JSON answers of a folder's model."""
  predictor = bert_tf.load(folder)
  return json.loads(json.dumps(predictor.predict(list(rows))))


def resume(run_script: Runner, folder: pathlib.Path, name: str) -> dict:
  """Trains a recorded run on, and returns its results and weights."""
  run = RUNS[name]
  run_script(run.command(name, run.resumed), folder)
  results = read_results(folder / name, run.files)
  return {"files": results, "weights": weights(folder / name)}


def evaluate(run_script: Runner, folder: pathlib.Path, name: str) -> dict:
  """Evaluates a recorded model and predicts with it; returns the results."""
  run_script(list(EVALUATIONS[name]), folder)
  return read_results(folder / name, RESULTS)


def read_results(output_dir: pathlib.Path, files: tuple[str, ...]) -> dict:
  """Returns the numbers of a run's result files, by file."""
  return {file: numbers(output_dir / file) for file in files}


def numbers(path: pathlib.Path) -> Any:
  """Returns a result file's content; cells become numbers if possible."""
  if path.suffix == ".json":
    return json.loads(path.read_text())
  return [
    cells[:1] if cells[0] in CORRELATIONS else [_number(cell) for cell in cells]
    for line in path.read_text().splitlines()
    for cells in [line.replace(" = ", "\t").split("\t")]
  ]


def weights(output_dir: pathlib.Path) -> dict[str, list[float]]:
  """Returns mean, root mean square and a projection of each variable.

  The projection onto fixed random directions changes if values change places.
  """
  newest = tf.train.latest_checkpoint(str(output_dir))
  reader = tf.train.load_checkpoint(newest)
  digests = {}
  for name in sorted(reader.get_variable_to_shape_map()):
    # The recorded version wrote LoRA's state without this scope.
    key = name.removeprefix("global_step/")
    if any(bias in name for bias in WITHOUT_GRADIENT):
      digests[key] = []
      continue
    values = np.asarray(reader.get_tensor(name), np.float64)
    directions = np.random.default_rng(values.size).normal(size=values.shape)
    digests[key] = [
      float(np.mean(values)),
      float(np.sqrt(np.mean(values**2))),
      float(np.sum(values * directions) / np.sqrt(values.size)),
    ]
  return digests


def differences(
  expected: Any, value: Any, tolerance: float, where: str = ""
) -> list[str]:
  """Returns a line for each place where two JSON values differ.

  Floats may differ by `tolerance`, relative to values above 1.
  """
  if isinstance(expected, Mapping) and isinstance(value, Mapping):
    keys = [*expected, *(key for key in value if key not in expected)]
    pairs = [(key, expected.get(key), value.get(key)) for key in keys]
  elif (
    isinstance(expected, list)
    and isinstance(value, list)
    and len(expected) == len(value)
  ):
    pairs = [(i, a, b) for i, (a, b) in enumerate(zip(expected, value))]
  elif isinstance(expected, float) and isinstance(value, float | int):
    is_near = abs(expected - value) <= tolerance * max(1, abs(expected))
    return [] if is_near else [f"{where}: {value} instead of {expected}"]
  else:
    is_equal = expected == value
    return [] if is_equal else [f"{where}: {value!r} instead of {expected!r}"]
  return [
    line
    for key, wanted, actual in pairs
    for line in differences(wanted, actual, tolerance, f"{where}/{key}")
  ]


def _number(cell: str) -> float | str:
  try:
    return float(cell)
  except ValueError:
    return cell
