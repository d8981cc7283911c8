"""Estimates of time and memory for --dry_run."""

import dataclasses
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

from bert_tf import model_config, model_size, names, tokenization
from bert_tf.files import json_files
from bert_tf.tasks.classification import examples as texts_lib
from bert_tf.tasks.classification import glue
from bert_tf.tasks.ner import examples as ner_lib
from bert_tf.tasks.swag import examples as swag_lib
from research.reproduction import config as config_lib
from research.reproduction import jobs
from research.reproduction import tasks as tasks_lib

# Share of the speed of a matrix product that a training step reaches. It is the
# share in docs/guides.md, below that of BERT-Large on an A100 (0.31 to 0.36).
UTILISATION = 0.3

_START_SECONDS = 30  # Imports and compilation of a run.
# Launching the operations of a step takes this long, however fast the device.
# An assumption, as are the seconds above.
_MIN_STEP_SECONDS = 0.01
_BACKWARD = 3  # Operations of a step, in forward passes.
_SAMPLE = 300  # Examples to estimate the mean length.
_TIMED_SHAPE = (4096, 768, 3072)  # A product of BERT-Base's feed-forward layer.
_ROUNDS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The model to fine-tune."""

  name: str
  path: str  # The value of --model.
  bert_config: model_config.BertConfig
  vocab_file: str
  hash: str  # A hash of the weights.

  @property
  def size(self) -> tuple[int, int]:
    """Number of layers and width."""
    config = self.bert_config
    return config.num_hidden_layers, config.hidden_size


@dataclasses.dataclass(frozen=True)
class Inputs:
  """The training inputs of a task."""

  num_examples: int
  sequences: int  # Sequences per example.
  length: float  # Mean word pieces of a padded sequence.


@dataclasses.dataclass(frozen=True)
class Estimate:
  """The cost of a run."""

  num_steps: int
  seconds: float
  num_bytes: int


def read_inputs(
  task: tasks_lib.Task, data: tasks_lib.Data, model: Model, max_length: int
) -> Inputs:
  """Returns the number and the length of a task's training inputs.

  SQuAD's windows are padded, and those of CoNLL-2003 are filled with context.
  Batches of other tasks are about as long as their inputs, whose mean length is
  that of a sample.
  """
  if task.command == "squad":
    articles = json_files.read_object(data.path(0))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"]]
    return Inputs(sum(len(p["qas"]) for p in paragraphs), 1, max_length)
  if task.command == "ner":
    sentences = ner_lib.read_sentences(data.path(0))
    return Inputs(len(sentences), 1, max_length)
  pairs: list[tuple[str, str]]
  if task.command == "swag":
    choices = swag_lib.read_examples(data.path(0), swag_lib.SWAG, True)
    pairs = [(c.context, c.continuations()[0]) for c in choices]
  else:
    layout = glue.get_task(task.name)
    rows = texts_lib.read_examples(data.folder, layout, "train")
    pairs = [(row.text_a, row.text_b or "") for row in rows]
  sample = pairs[:: max(1, len(pairs) // _SAMPLE)]
  length = _mean_length(sample, model.vocab_file, max_length)
  return Inputs(len(pairs), 4 if task.command == "swag" else 1, length)


def _mean_length(
  pairs: Iterable[tuple[str, str]], vocab_file: str, max_length: int
) -> float:
  """Returns the mean number of word pieces, with [CLS] and [SEP]."""
  tokenizer = tokenization.FullTokenizer(vocab_file)
  return statistics.fmean(
    min(max_length, 3 + len(tokenizer.tokenize(" ".join(pair))))
    for pair in pairs
  )


def estimate(
  run: jobs.Run, model: Model, inputs: Inputs, flops: float
) -> Estimate:
  """Returns the cost of a run, without its evaluation.

  Args:
    run: the run.
    model: the model.
    inputs: the training inputs.
    flops: speed of a matrix product, in operations per second.
  """
  task = tasks_lib.TASKS[run.task]
  batch_size = run.train_batch_size
  num_steps = int(inputs.num_examples / batch_size * run.num_train_epochs)
  has_features = tasks_lib.has_features(task)
  # Spans and tags read all positions of the last layer, other heads only [CLS].
  length = round(inputs.length)
  num_read = length if task.command in ("squad", "ner") else 0
  shape = model_size.BatchSizes(
    train_batch_size=batch_size * inputs.sequences,
    max_seq_length=length,
    max_predictions_per_seq=num_read,
  )
  forward = sum(
    term.value
    for term in model_size.terms("forward", model.bert_config, shape)
    if term.name != "masked words"
  )
  operations: float = num_steps * forward * _BACKWARD
  memory = "training"
  if has_features:  # BERT is frozen and runs once. Leaves out the BiLSTM.
    operations = inputs.num_examples / batch_size * forward
    memory = "inference"
  longest = dataclasses.replace(shape, max_seq_length=run.max_seq_length)
  return Estimate(
    num_steps,
    _START_SECONDS
    + max(num_steps * _MIN_STEP_SECONDS, operations / (UTILISATION * flops)),
    model_size.total(model_size.terms(memory, model.bert_config, longest)),
  )


def measure_flops(precision: str) -> float:
  """Returns the operations per second of a matrix product on this machine."""
  import tensorflow as tf

  from bert_tf.layers import mixed_precision

  mixed_precision.set_tf32(precision)
  dtype = "float32" if precision in ("float32", names.TF32) else precision
  rows, inner, columns = _TIMED_SHAPE
  left = tf.cast(tf.random.normal([rows, inner]), dtype)
  right = tf.cast(tf.random.normal([inner, columns]), dtype)
  seconds = []
  for _ in range(_ROUNDS + 1):  # The first round loads libraries.
    start = time.perf_counter()
    # Reading a sum waits for the product.
    float(tf.reduce_sum(tf.matmul(left, right)))
    seconds.append(time.perf_counter() - start)
  return 2 * rows * inner * columns / min(seconds[1:])


def print_plan(
  config: config_lib.ReproductionConfig,
  model: Model,
  data: Mapping[str, tasks_lib.Data],
  plan: Sequence[jobs.Run],
  pending: Sequence[jobs.Run],
) -> None:
  """Prints a line for the runs of each task and batch size, and the total."""
  precision = config.compute.precision
  flops = (config.teraflops or 0.0) * 1e12 or measure_flops(precision)
  lengths = {run.task: run.max_seq_length for run in plan}
  inputs = {
    name: read_inputs(tasks_lib.TASKS[name], data[name], model, length)
    for name, length in lengths.items()
  }
  estimates = {r: estimate(r, model, inputs[r.task], flops) for r in plan}
  num_done = len(plan) - len(pending)
  print(f"{model.name}: {len(plan)} runs, {num_done} of them done")
  print(
    f"{'task':34}{'batch':>6}{'runs':>6}{'to do':>6}{'examples':>10}"
    f"{'steps':>8}{'min/run':>9}{'GB':>6}"
  )
  for task, batch_size in dict.fromkeys(
    (run.task, run.train_batch_size) for run in plan
  ):
    key = task, batch_size
    same = [r for r in plan if (r.task, r.train_batch_size) == key]
    cost = estimates[same[0]]
    num_pending = len([run for run in pending if run in same])
    print(
      f"{task:34}{batch_size:>6}{len(same):>6}{num_pending:>6}"
      f"{inputs[task].num_examples:>10,}{cost.num_steps:>8,}"
      f"{cost.seconds / 60:>9,.1f}{cost.num_bytes / 1e9:>6.1f}"
    )
  hours = sum(estimates[run].seconds for run in pending) / 3600
  origin = "given" if config.teraflops else f"measured here, {precision}"
  print(
    f"About {hours:,.1f} hours for the runs to do. An estimate: operations of "
    f"all steps at {UTILISATION} of {flops / 1e12:.3g} TFLOP/s ({origin}), at "
    f"least {_MIN_STEP_SECONDS * 1000:.0f} ms a step and {_START_SECONDS} s to "
    "start each run, without evaluations."
  )
