"""Named entity recognition: a tag for every word (Devlin et al. 2019, 5.3)."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.run_info import LabelSpec
from bert_tf.files import packages, paths
from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.ner import examples
from bert_tf.tasks.ner.config import NerSettings
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.training import results

Rows = Sequence[Row]

# The prefixes of other schemes, BIOES, BILOU and BMES, as seqeval reads them.
_PREFIXES = dict(zip("BIMELSU", "BIIEESS"))

# Scores of all entities. Scores of one type of entity have the prefix TYPE_.
SCORES = ("f1", "precision", "recall")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerTask(base.Task[NerSettings]):
  """Labels the words of sentences.

  An answer has `words`, each with `word`, `label`, `probability`, `start` and
  `end`, in characters of the text. The scores of a test file with tags are
  returned as test_*.

  Args:
    splits_punctuation: whether punctuation beside a word of a text is a word of
      its own, instead of only white space separating words.
  """

  name = "ner"
  noun = "training windows"
  position_features = ("label_ids", "label_mask")
  first_results = (
    *SCORES,
    *("accuracy", "eval_accuracy", "eval_loss", "global_step", "loss"),
  )
  loss_name = "token_loss"
  loss_mask = "label_mask"
  counts_windows = True  # A sentence may have several.

  splits_punctuation: bool = False

  @property
  def metrics(self) -> tuple[str, ...]:
    """The scores of all entities, those of each type, and the means."""
    return (*result_names(self._labels), *super().metrics)

  @property
  def _labels(self) -> tuple[str, ...]:
    assert self.labels is not None
    return self.labels.labels

  def variants(self) -> Mapping[str, "NerTask"]:
    """Returns `plain_text`, for texts with punctuation beside words."""
    return {"plain_text": dataclasses.replace(self, splits_punctuation=True)}

  def read(self, split: str) -> Rows:
    """Reads a file; tags become the model's labels, if these are known."""
    path = self.files[split].path or ""
    rows = examples.read_sentences(
      path, self.config.word_column, self.config.tag_column
    )
    if "label" not in rows[0] and split != "test":
      raise ValueError(
        f"{path} has no column of tags next to the words. Only the test file "
        "may lack tags."
      )
    for row in rows:
      if "label" in row:
        row["label"] = self._to_labels(row["label"], split, path, row["line"])
    return rows

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the labels of the words: tags, or a text of tags."""
    words = [word for word, _ in examples.split_at_spaces(row["text"])]
    tags = label.split() if isinstance(label, str) else label
    if not isinstance(tags, list | tuple) or len(tags) != len(words):
      raise ValueError(
        f"it has {len(words)} words, but its tags are {label!r:.60}."
      )
    labels = self._to_labels([*map(str, tags)], split)
    return {**row, "words": words, "label": labels}

  def _to_labels(
    self, tags: Sequence[str], split: str, path: str = "", line: int = 0
  ) -> list[str]:
    """Returns the model's labels, or if they are not known, tags of IOB2.

    Raises ValueError for a tag that means none; in a file, `line` is that of
    the first tag.
    """
    if split != "train":
      import_seqeval()  # Fails here, not after hours of training.
    labels = []
    meant = examples.to_labels(tags, self._labels if self.labels else None)
    for number, (tag, label) in enumerate(zip(tags, meant), line):
      if label is None:
        fault = f"{tag!r} is not a tag. Tags are O, B-TYPE and I-TYPE"
        if self.labels:
          fault = self.labels.unknown_label(tag)
        where = f"{path}:{number}: " if path else ""
        hint = " (`tag_column`)" if path else ""
        raise ValueError(f"{where}{fault}{hint}.")
      labels.append(label)
    return labels

  def infer_labels(self, rows: Rows, source: str) -> LabelSpec:
    """Returns O, then B- and I- of each type in the sentences, sorted.

    Each type has both tags, since other files may have entities of several
    words even if the training file does not.
    """
    tags = {tag for row in rows for tag in row.get("label", ())}
    types = sorted({tag[1:] for tag in tags if tag != examples.OUTSIDE})
    if not types:
      raise ValueError(f"{source} has no entities: every tag is O.")
    labels = (examples.OUTSIDE, *(p + name for name in types for p in "BI"))
    return LabelSpec("ner", run_info.WORDS, labels)

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the windows that label the words of each row, in order.

    A row has `words`, or the `text` that they are in. A sentence that fits is
    labelled in one window. A longer sentence has several. Each labels words
    that fill up to half of the window, so that these words have context. Both
    sides of the labelled words are filled up to max_seq_length, [CLS] and [SEP]
    included, with the rest of the sentence or, with document_context, of the
    document.

    The `state` is (row, positions): for each window a list of the positions of
    the first word pieces of the words that are labelled in it.
    """
    room = self.max_seq_length - 2
    cls_id, sep_id, unknown_id = self.tokenizer.convert_tokens_to_ids(
      ["[CLS]", "[SEP]", "[UNK]"]
    )
    rows = map(self._with_starts, rows)
    texts: Iterable[list[Row]] = ([row] for row in rows)
    if self.settings.document_context:
      documents = itertools.groupby(rows, lambda row: row.get("document"))
      texts = (list(document) for _, document in documents)
    for text in texts:
      # A word has at least one piece, [UNK] if necessary, and at most a window.
      pieces = [
        self.tokenize(word)[:room] or [unknown_id]
        for row in text
        for word in row["words"]
      ]
      ids = list(itertools.chain.from_iterable(pieces))
      starts = list(itertools.accumulate(map(len, pieces), initial=0))
      row_end = 0
      for row in text:
        row_start, row_end = row_end, row_end + len(row["words"])
        # Each window labels the words from one bound to the next.
        bounds = [row_start]
        if starts[row_end] - starts[row_start] > room:
          for word in range(row_start + 1, row_end):
            if starts[word + 1] - starts[bounds[-1]] > room // 2:
              bounds.append(word)
        sequences, positions = [], []
        for first, end in itertools.pairwise([*bounds, row_end]):
          spare = room - (starts[end] - starts[first])
          before, after = starts[first], len(ids) - starts[end]
          # Split evenly; space that one side does not need goes to the other.
          left = min(before, max(spare // 2, spare - after))
          right = min(after, spare - left)
          shown_from = starts[first] - left
          shown = [cls_id, *ids[shown_from : starts[end] + right], sep_id]
          sequences.append(base.model_input(shown, len(shown)))
          positions.append([i - shown_from + 1 for i in starts[first:end]])
        is_cut = len(sequences) > 1
        yield base.Inputs(sequences, (row, positions), is_cut=is_cut)

  def _with_starts(self, row: Row) -> Row:
    """Returns a row with `words`, and their `starts` in the text."""
    if "words" in row:
      sizes = (len(word) + 1 for word in row["words"])
      return {**row, "starts": [*itertools.accumulate(sizes, initial=0)]}
    split = examples.split_at_spaces
    if self.splits_punctuation:
      split = examples.split_punctuation
    places = {start: word for word, start in split(row["text"])}
    return {**row, "words": [*places.values()], "starts": [*places]}

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the labels of each window's words; 0 if they are not known."""
    ids = {label: i for i, label in enumerate(self._labels)}
    labels = iter(row.get("label", ()))
    _, all_positions = inputs.state
    for positions in all_positions:
      label_ids, label_mask = np.zeros((2, self.max_seq_length), np.int64)
      label_mask[positions] = 1
      for position, label in zip(positions, labels):
        label_ids[position] = ids[label]
      yield {"label_ids": label_ids, "label_mask": label_mask}

  def compute_losses(
    self, outputs: Tensor, features: losses.Features
  ) -> tuple[Tensor, Tensor]:
    """Returns the loss at each position, and whether its label is right."""
    label_ids = features["label_ids"]
    return (
      losses.cross_entropy(outputs, label_ids),
      losses.hits(outputs, label_ids),
    )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the most probable label of each word."""
    sentence, positions = inputs.state
    logits = np.concatenate(
      [output["logits"][each] for each, output in zip(positions, outputs)]
    )  # [words, C]
    highest = base.digits(base.probabilities(logits).max(axis=-1))
    labels = [self._labels[i] for i in logits.argmax(axis=-1)]
    names = ("word", "label", "probability", "start", "end")
    starts = sentence["starts"]
    ends = [start + len(word) for word, start in zip(sentence["words"], starts)]
    values = zip(sentence["words"], labels, highest, starts, ends)
    return {"words": [dict(zip(names, each)) for each in values]}

  def score(self, rows: Rows, answers: Sequence[Answer]) -> Results:
    """Returns precision, recall and F1 of the entities."""
    return compute_scores(rows, _labels_of(answers), self._labels)

  def write_evaluation(
    self, output_dir: str, rows: Rows, answers: Sequence[Answer]
  ) -> None:
    """Writes the words, tags and predicted tags to eval_predictions.txt."""
    path = os.path.join(output_dir, "eval_predictions.txt")
    write_conll(path, rows, _labels_of(answers))

  def write_predictions(
    self, output_dir: str, rows: Rows, answers: Iterable[Answer]
  ) -> Results:
    """Writes test_predictions.txt and, if tags are known, test_results.txt.

    If tags are not known, removes the test_results.txt of earlier predictions.
    """
    predicted = _labels_of(answers)
    path = os.path.join(output_dir, "test_predictions.txt")
    write_conll(path, rows, predicted)
    results_file = os.path.join(output_dir, "test_results.txt")
    if "label" not in rows[0]:
      paths.remove(results_file)
      return {}
    scores = compute_scores(rows, predicted, self._labels)
    gold = itertools.chain.from_iterable(row["label"] for row in rows)
    pairs = zip(gold, itertools.chain.from_iterable(predicted))
    scores["accuracy"] = float(np.mean([a == b for a, b in pairs]))
    results.write_results(results_file, scores, first=self.first_results)
    return {f"test_{name}": value for name, value in scores.items()}


def _labels_of(answers: Iterable[Answer]) -> list[list[str]]:
  return [[word["label"] for word in answer["words"]] for answer in answers]


def result_names(labels: Sequence[str]) -> list[str]:
  """Returns the names of `compute_scores`: of all entities first, then by type.

  The labels B and I, without a type, have no scores of their own.
  """
  types = dict.fromkeys(_entity_tag(label)[2:] for label in labels)
  prefixes = ["", *(f"{type_}_" for type_ in types if type_)]
  return [prefix + name for prefix in prefixes for name in SCORES]


def _entity_tag(label: str) -> str:
  """Returns a label as seqeval reads it: without a prefix it means I-."""
  prefix, dash, type_ = label.partition("-")
  if dash and prefix in _PREFIXES:
    return f"{_PREFIXES[prefix]}-{type_}"
  return label if examples.is_tag(label) else f"I-{label}"


def import_seqeval() -> Any:
  """Returns the module that scores entities; ImportError without seqeval."""
  with packages.needs_extra("scoring entities", extra="ner"):
    from seqeval.metrics import sequence_labeling
  return sequence_labeling


def compute_scores(
  sentences: Sequence[Row],
  predicted: Sequence[Sequence[str]],
  labels: Sequence[str],
) -> dict[str, float]:
  """Returns precision, recall and F1 of entities, as conlleval does.

  An entity is correct if its first word, its last word and its type are. An I-
  that does not continue an entity begins one, and equal labels without B- and
  I- in a row are one entity. Division by 0 results in 0. The names are those of
  `result_names`.
  """
  gold = [[*map(_entity_tag, row["label"])] for row in sentences]
  predicted = [[*map(_entity_tag, tags)] for tags in predicted]
  scores = dict.fromkeys(result_names(labels), 0.0)
  if {tag for row in (*gold, *predicted) for tag in row} <= {examples.OUTSIDE}:
    return scores
  report = import_seqeval().classification_report(
    gold, predicted, output_dict=True, zero_division=0
  )
  for type_, row in report.items():
    prefix = "" if type_ == "micro avg" else f"{type_}_"
    for name, key in zip(SCORES, ("f1-score", "precision", "recall")):
      if prefix + name in scores:
        scores[prefix + name] = float(row[key])
  return scores


def write_conll(
  path: str, sentences: Sequence[Row], predicted: Sequence[Sequence[str]]
) -> None:
  """Writes `word gold predicted` lines, the input of conlleval.

  Without known tags, the lines are `word predicted`. A blank line ends each
  sentence, and -DOCSTART- lines keep their places. Spaces separate columns, or
  tabs if a word contains a space.
  """
  has_blanks = any(" " in word for row in sentences for word in row["words"])
  separator = "\t" if has_blanks else " "
  lines: list[str] = []
  document = 0
  for row, tags in zip(sentences, predicted):
    columns = [row["words"], tags]
    if "label" in row:
      columns.insert(1, row["label"])
    outside = [examples.OUTSIDE] * (len(columns) - 1)
    start = separator.join([examples.DOCUMENT_START, *outside])
    number = row.get("document", 0)
    lines += [start, ""] * (number - document)
    document = number
    lines += [*map(separator.join, zip(*columns)), ""]
  results.write_lines(path, lines)
