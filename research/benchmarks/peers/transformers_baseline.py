"""Fine-tunes a Hugging Face model with PyTorch, as a baseline.

Uses no code of bert_tf. Tokenization, model and optimizer come from
transformers and PyTorch:

pip install torch transformers scikit-learn scipy absl-py

The recipe is that of run_classifier.py and run_squad.py: the same number of
steps, linear warm-up over the first 10%, linear decay, and gradients clipped at
a global norm of 1. Weight decay is 0.01, except for biases and layer norms.
--nocorrect_bias leaves out Adam's bias correction, as BERT does.
"""

import collections
import csv
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
import sklearn.metrics
import torch
import transformers
from absl import app, flags

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "Folder of a Hugging Face BERT.")
flags.DEFINE_string(
  "task_name", None, "MRPC, RTE, CoLA, STS-B, SST-2, WNLI or SQuAD."
)
flags.DEFINE_string("data_dir", None, "Folder with train.tsv and dev.tsv.")
flags.DEFINE_string("train_file", None, "SQuAD JSON to train on.")
flags.DEFINE_string("predict_file", None, "SQuAD JSON to answer.")
flags.DEFINE_string("output_dir", None, "Folder for SQuAD's predictions.json.")
flags.DEFINE_integer("max_seq_length", 128, "Word pieces per example.")
flags.DEFINE_integer("doc_stride", 128, "Word pieces between window starts.")
flags.DEFINE_integer("train_batch_size", 32, "Examples per step.")
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the training file.")
flags.DEFINE_integer("num_runs", 1, "Runs, with the seeds seed, seed + 1, ...")
flags.DEFINE_integer("seed", 12345, "Seed of the first run.")
flags.DEFINE_string("device", "cpu", "cpu or cuda.")
flags.DEFINE_bool(
  "correct_bias", True, "Whether Adam corrects the bias of its moments."
)
flags.DEFINE_bool("version_2_with_negative", False, "SQuAD 2.0.")
flags.mark_flags_as_required(["model_dir", "task_name"])

_MAX_QUERY_LENGTH = 64
_N_BEST_SIZE = 20
_MAX_ANSWER_LENGTH = 30

Metrics = dict[str, float]
Features = dict[str, Any]
Collate = Callable[[Sequence[Features]], Mapping[str, torch.Tensor]]

# Id, text, context, and the first answer, if any.
Question = tuple[str, str, str, Mapping[str, Any] | None]

# Characters [start, end) of each token; None outside the context.
Offsets = Sequence[tuple[int, int] | None]


def _matthews(labels: np.ndarray, logits: np.ndarray) -> Metrics:
  return {
    "matthews": sklearn.metrics.matthews_corrcoef(labels, logits.argmax(-1))
  }


def _accuracy(labels: np.ndarray, logits: np.ndarray) -> Metrics:
  return {"accuracy": np.mean(labels == logits.argmax(-1))}


def _accuracy_and_f1(labels: np.ndarray, logits: np.ndarray) -> Metrics:
  f1 = sklearn.metrics.f1_score(labels, logits.argmax(-1))
  return {**_accuracy(labels, logits), "f1": f1}


def _correlations(labels: np.ndarray, logits: np.ndarray) -> Metrics:
  scores = logits[:, 0]
  return {
    "pearson": scipy.stats.pearsonr(labels, scores).statistic,
    "spearman": scipy.stats.spearmanr(labels, scores).statistic,
  }


# Columns of the texts, column of the label, whether the file has a header,
# labels (None for regression), metrics.
_TASKS = {
  "MRPC": ((3, 4), 0, True, ("0", "1"), _accuracy_and_f1),
  "RTE": ((1, 2), 3, True, ("entailment", "not_entailment"), _accuracy),
  "CoLA": ((3,), 1, False, ("0", "1"), _matthews),
  "STS-B": ((7, 8), 9, True, None, _correlations),
  "SST-2": ((0,), 1, True, ("0", "1"), _accuracy),
  "WNLI": ((1, 2), 3, True, ("0", "1"), _accuracy),
}


def _read(name: str, path: str) -> tuple[list[list[str]], list[float]]:
  """Returns the one or two texts and the label of each example in a file."""
  columns, label_column, has_header, labels, _ = _TASKS[name]
  with open(path, encoding="utf-8", newline="") as file:
    rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
  rows = rows[has_header:]
  texts = [[row[c] for c in columns] for row in rows]
  to_number = labels.index if labels else float
  return texts, [to_number(row[label_column]) for row in rows]


def _train(
  model: torch.nn.Module,
  features: Sequence[Features],
  collate: Collate,
  num_examples: int,
  seed: int,
) -> float:
  """Trains a model; returns the wall time in seconds."""
  batch_size = FLAGS.train_batch_size
  num_steps = int(num_examples / batch_size * FLAGS.num_train_epochs)
  decayed: list[torch.nn.Parameter] = []
  not_decayed: list[torch.nn.Parameter] = []
  for name, parameter in model.named_parameters():
    is_decayed = not name.endswith("bias") and "LayerNorm" not in name
    (decayed if is_decayed else not_decayed).append(parameter)
  optimizer = torch.optim.AdamW(
    [{"params": decayed}, {"params": not_decayed}],
    lr=FLAGS.learning_rate,
    eps=1e-6,
    fused=True,
  )
  rng = np.random.default_rng(seed)
  model.to(FLAGS.device).train()
  start = time.monotonic()
  step = 0
  while step < num_steps:
    shuffled = rng.permutation(len(features))
    for i in range(0, len(shuffled) - batch_size + 1, batch_size):
      batch = collate([features[j] for j in shuffled[i : i + batch_size]])
      model(**batch).loss.backward()
      torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
      _set_rates(optimizer, step, num_steps)
      optimizer.step()
      optimizer.zero_grad()
      step += 1
      if step == num_steps:
        break
  return time.monotonic() - start


def _set_rates(
  optimizer: torch.optim.Optimizer, step: int, num_steps: int
) -> None:
  """Sets learning rate and weight decay; `step` counts from 0."""
  num_warmup_steps = num_steps // 10
  rate = FLAGS.learning_rate * (1 - step / num_steps)
  if step < num_warmup_steps:
    rate = FLAGS.learning_rate * step / num_warmup_steps
  scale = 1.0
  if not FLAGS.correct_bias:
    beta1, beta2 = optimizer.defaults["betas"]
    scale = (1 - beta1 ** (step + 1)) / (1 - beta2 ** (step + 1)) ** 0.5
  for group, decay in zip(optimizer.param_groups, (0.01, 0.0)):
    # AdamW multiplies the decay by lr too; the division keeps it unscaled.
    group["lr"], group["weight_decay"] = rate * scale, decay / scale


def _batches(
  features: Sequence[Features], size: int
) -> Iterator[Sequence[Features]]:
  for i in range(0, len(features), size):
    yield features[i : i + size]


def _make_collate(tokenizer: transformers.PreTrainedTokenizerBase) -> Collate:
  """Returns a function that pads features to a batch on the device."""
  return lambda features: tokenizer.pad(features, return_tensors="pt").to(
    FLAGS.device
  )


def _run_classifier(
  tokenizer: transformers.PreTrainedTokenizerBase, seed: int
) -> tuple[Metrics, float]:
  """Fine-tunes once; returns dev metrics and the seconds of training."""
  name = FLAGS.task_name
  labels, measure = _TASKS[name][3:]
  torch.manual_seed(seed)
  model = transformers.AutoModelForSequenceClassification.from_pretrained(
    FLAGS.model_dir, num_labels=len(labels) if labels else 1
  )

  def read_features(split: str) -> list[Features]:
    path = os.path.join(FLAGS.data_dir, f"{split}.tsv")
    return [
      {
        **tokenizer(*text, truncation=True, max_length=FLAGS.max_seq_length),
        "labels": label,
      }
      for text, label in zip(*_read(name, path))
    ]

  collate = _make_collate(tokenizer)
  train = read_features("train")
  seconds = _train(model, train, collate, len(train), seed)
  dev = read_features("dev")
  model.eval()
  with torch.inference_mode():
    outputs = [model(**collate(batch)).logits for batch in _batches(dev, 32)]
    logits = torch.cat(outputs).cpu().numpy()
  label_ids = np.array([feature["labels"] for feature in dev])
  return measure(label_ids, logits), seconds


def _questions(path: str) -> list[Question]:
  """Returns the questions of a SQuAD file, each with its first answer."""
  with open(path, encoding="utf-8") as file:
    data = json.load(file)["data"]
  return [
    (qa["id"], qa["question"].strip(), paragraph["context"], answer)
    for article in data
    for paragraph in article["paragraphs"]
    for qa in paragraph["qas"]
    for answer in [(qa.get("answers") or [None])[0]]
  ]


def _windows(
  tokenizer: transformers.PreTrainedTokenizerBase,
  questions: Sequence[Question],
  is_training: bool,
) -> Iterator[Features]:
  """Yields the windows of all questions, cut as in run_squad.py."""
  for number, (_, question, context, answer) in enumerate(questions):
    query = tokenizer(question, add_special_tokens=False)["input_ids"]
    if len(query) > _MAX_QUERY_LENGTH:
      query = query[:_MAX_QUERY_LENGTH]
      question = tokenizer.decode(query)
    length = FLAGS.max_seq_length - len(query) - 3
    encoded = tokenizer(
      question,
      context,
      truncation="only_second",
      max_length=FLAGS.max_seq_length,
      stride=max(0, length - FLAGS.doc_stride),
      return_overflowing_tokens=True,
      return_offsets_mapping=True,
    )
    for i, offsets in enumerate(encoded["offset_mapping"]):
      is_context = [s == 1 for s in encoded.sequence_ids(i)]
      window = {k: encoded[k][i] for k in tokenizer.model_input_names}
      if is_training:
        span = _find_answer(offsets, is_context, answer)
        window["start_positions"], window["end_positions"] = span
      else:
        window["number"] = number
        window["offsets"] = [
          pair if inside else None for pair, inside in zip(offsets, is_context)
        ]
      yield window


def _find_answer(
  offsets: Sequence[tuple[int, int]],
  is_context: Sequence[bool],
  answer: Mapping[str, Any] | None,
) -> tuple[int, int]:
  """Returns the answer's first and last token; (0, 0) if not in the window."""
  if not answer:
    return 0, 0
  start = answer["answer_start"]
  end = start + len(answer["text"])
  span = [
    i
    for i, (o, t) in enumerate(zip(offsets, is_context))
    if t and o[0] < end and o[1] > start
  ]
  if not span or offsets[span[0]][0] > start or offsets[span[-1]][1] < end:
    return 0, 0
  return span[0], span[-1]


def _run_squad(
  tokenizer: transformers.PreTrainedTokenizerBase, seed: int
) -> tuple[Metrics, float, float]:
  """Fine-tunes once, answers all questions and writes the answers.

  Returns:
    The number of answers, the seconds of fine-tuning and those of answering.
  """
  torch.manual_seed(seed)
  model = transformers.AutoModelForQuestionAnswering.from_pretrained(
    FLAGS.model_dir
  )
  collate = _make_collate(tokenizer)
  start = time.monotonic()
  questions = _questions(FLAGS.train_file)
  windows = list(_windows(tokenizer, questions, is_training=True))
  _train(model, windows, collate, len(questions), seed)
  train_seconds = time.monotonic() - start
  start = time.monotonic()
  questions = _questions(FLAGS.predict_file)
  windows = list(_windows(tokenizer, questions, is_training=False))
  model.eval()
  logits_by_question = collections.defaultdict(list)
  with torch.inference_mode():
    for batch in _batches(windows, 32):
      inputs = [{k: w[k] for k in tokenizer.model_input_names} for w in batch]
      output = model(**collate(inputs))
      starts, ends = output.start_logits, output.end_logits
      rows = zip(starts.cpu().numpy(), ends.cpu().numpy())
      for window, logits in zip(batch, rows):
        results = window["offsets"], *logits
        logits_by_question[window["number"]].append(results)
  answers, odds = {}, {}
  for number, (qas_id, _, context, _) in enumerate(questions):
    windows_of_question = logits_by_question[number]
    answers[qas_id], odds[qas_id] = _answer(context, windows_of_question)
  os.makedirs(FLAGS.output_dir, exist_ok=True)
  for name, values in (("predictions", answers), ("null_odds", odds)):
    path = os.path.join(FLAGS.output_dir, f"{name}.json")
    with open(path, "w", encoding="utf-8") as file:
      json.dump(values, file)
  metrics: Metrics = {"num_questions": len(questions)}
  return metrics, train_seconds, time.monotonic() - start


def _answer(
  context: str, windows: Sequence[tuple[Offsets, np.ndarray, np.ndarray]]
) -> tuple[str, float]:
  """Returns the best answer, and the null score minus the answer's score."""
  best_score, best_text, null_score = -np.inf, "", np.inf
  for offsets, starts, ends in windows:
    null_score = min(null_score, float(starts[0] + ends[0]))
    for s in np.argsort(starts)[::-1][:_N_BEST_SIZE]:
      for e in np.argsort(ends)[::-1][:_N_BEST_SIZE]:
        if not s <= e < min(len(offsets), s + _MAX_ANSWER_LENGTH):
          continue
        if not (offsets[s] and offsets[e]) or starts[s] + ends[e] < best_score:
          continue
        best_score = float(starts[s] + ends[e])
        best_text = context[offsets[s][0] : offsets[e][1]]
  odds = null_score - best_score
  if FLAGS.version_2_with_negative and odds > 0:
    return "", odds
  return best_text, odds


def main(unused_argv: Sequence[str]) -> None:
  """Runs all seeds; prints each result, then mean and standard deviation."""
  tokenizer = transformers.AutoTokenizer.from_pretrained(FLAGS.model_dir)
  is_squad = FLAGS.task_name == "SQuAD"
  run = _run_squad if is_squad else _run_classifier
  results = []
  for seed in range(FLAGS.seed, FLAGS.seed + FLAGS.num_runs):
    metrics, *seconds = run(tokenizer, seed)
    results.append(metrics)
    print(f"seed {seed}: {metrics}, seconds: {seconds}", flush=True)
  for name in results[0] if len(results) > 1 else ():
    values = [float(metrics[name]) for metrics in results]
    mean, spread = statistics.mean(values), statistics.stdev(values)
    print(f"{name}: mean {mean:.4f}, sample deviation {spread:.4f}")


if __name__ == "__main__":
  app.run(main)
