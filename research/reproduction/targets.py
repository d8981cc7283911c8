"""Published results of the released models, to compare with ours."""

import dataclasses
import itertools

from research.reproduction import tasks as tasks_lib

PAPER = "paper"  # Devlin et al. 2019.
README = "README"  # README.md of google-research/bert.
MULTILINGUAL = "multilingual.md"  # Of google-research/bert.
DEV, TEST, UNNAMED = "dev", "test", "not named"

# Names in place of a task: the averages of GLUE, and pre-training itself.
GLUE, PRETRAINING = "GLUE", "pre-training"

BASE, LARGE = "uncased_L-12_H-768_A-12", "uncased_L-24_H-1024_A-16"
# The paper's models of CoNLL-2003 keep the letter case (5.3).
CASED_BASE, CASED_LARGE = "cased_L-12_H-768_A-12", "cased_L-24_H-1024_A-16"
# The models of multilingual.md.
MULTI, MULTI_UNCASED = (
  "multi_cased_L-12_H-768_A-12",
  "multilingual_L-12_H-768_A-12",
)
CHINESE = "chinese_L-12_H-768_A-12"


@dataclasses.dataclass(frozen=True)
class Target:
  """A published result in percent."""

  model: str  # Name of a released model.
  task: str  # A name in tasks.TASKS, GLUE or PRETRAINING.
  result: str  # A name in report.RESULTS; "" for AX.
  low: float
  high: float  # Equal to `low`, except for a range.
  split: str  # DEV, TEST or UNNAMED.
  source: str

  @property
  def published(self) -> str:
    """The number or the range."""
    if self.low == self.high:
      return f"{self.low:g}"
    return f"{self.low:g} to {self.high:g}"


def _columns(text: str) -> list[tuple[str, str]]:
  """Returns the task and the result of each column; see `_parse`."""
  columns, task = [], ""
  for column in text.split():
    name, colon, result = column.partition(":")
    task = name or task
    metric = result if colon else tasks_lib.TASKS[task].metric
    columns.append((task, metric))
  return columns


def _parse(
  model: str, split: str, source: str, columns: str, numbers: str
) -> list[Target]:
  """Returns the targets of a row of a table.

  Args:
    model: name of a released model.
    split: DEV, TEST or UNNAMED.
    source: PAPER, README or MULTILINGUAL, with the place.
    columns: TASK:RESULT of each number, separated by spaces; :RESULT for the
      task before, and TASK for the result that chooses the settings.
    numbers: the numbers, separated by spaces; LOW..HIGH for a range.
  """
  targets = []
  parsed = zip(_columns(columns), numbers.split(), strict=True)
  for (task, result), number in parsed:
    low, _, high = number.partition("..")
    numbers_of = float(low), float(high or low)
    targets.append(Target(model, task, result, *numbers_of, split, source))
  return targets


# Accuracy; F1 for QQP and MRPC, Spearman correlation for STS-B, Matthews
# correlation for CoLA.
_TABLE_1 = "MNLI :mm_eval_accuracy QQP QNLI SST-2 CoLA STS-B MRPC RTE"
_TABLE_1_AVERAGE = f"{_TABLE_1} GLUE:average"
_TABLE_5 = "MNLI QNLI MRPC:eval_accuracy SST-2"
_SQUAD = "SQuAD-1.1:exact_match :f1"
_SQUAD_README = "SQuAD-1.1-README:exact_match :f1"
_SQUAD_ENSEMBLE = "SQuAD-1.1:ensemble_exact_match :ensemble_f1"
_TRIVIAQA = (
  "SQuAD-1.1-TriviaQA:exact_match :f1 :ensemble_exact_match :ensemble_f1"
)
_SQUAD_2 = "SQuAD-2.0:exact_match :f1"
_NEXT_SENTENCE = f"{PRETRAINING}:next_sentence_accuracy"
_CONLL = "CoNLL-2003"
_CONLL_TEST = "CoNLL-2003:test_f1"

# MRPC and QQP: F1 and accuracy. STS-B: Pearson and Spearman correlation. AX is
# scored only by GLUE's server.
_SMALL = (
  "CoLA SST-2 MRPC:f1 :eval_accuracy STS-B:pearson :spearman QQP:f1 "
  ":eval_accuracy MNLI :mm_eval_accuracy QNLI RTE WNLI"
)
_SMALL_ALL = f"{_SMALL} MNLI: GLUE:score"
_SMALL_PLACE = f"{README}, March 11th, 2020"
_WORDS_PLACE = f"{README}, May 31st, 2019"
_WORDS = "SQuAD-1.1:f1 :exact_match MNLI"

# Accuracy by language. Models that are trained on English are evaluated on
# other languages, or on these translated to English.
_XNLI = " ".join(f"XNLI-{language}" for language in tasks_lib.LANGUAGES)
_OTHERS = tasks_lib.LANGUAGES[1:]
_ZERO_SHOT = " ".join(f"XNLI-en:{x}_eval_accuracy" for x in _OTHERS)
_TRANSLATED = " ".join(f"XNLI-en:{x}_translated" for x in _OTHERS)

TARGETS = (
  *_parse(
    *(BASE, TEST, f"{PAPER}, table 1", _TABLE_1_AVERAGE),
    "84.6 83.4 71.2 90.5 93.5 52.1 85.8 88.9 66.4 79.6",
  ),
  *_parse(BASE, DEV, f"{PAPER}, table 5", _TABLE_5, "84.4 88.4 86.7 92.7"),
  *_parse(BASE, DEV, README, "MRPC:eval_accuracy", "84..88"),
  *_parse(BASE, DEV, f"{PAPER}, table 2", _SQUAD, "80.8 88.5"),
  *_parse(BASE, DEV, README, _SQUAD_README, "81.25 88.41"),
  *_parse(BASE, DEV, f"{PAPER}, table 4", "SWAG", "81.6"),
  *_parse(
    *(LARGE, TEST, f"{PAPER}, table 1", _TABLE_1_AVERAGE),
    "86.7 85.9 72.1 92.7 94.9 60.5 86.5 89.3 70.1 82.1",
  ),
  *_parse(LARGE, TEST, f"{PAPER}, abstract", "GLUE:score", "80.5"),
  *_parse(LARGE, DEV, f"{PAPER}, table 2", _SQUAD, "84.1 90.9"),
  *_parse(LARGE, DEV, f"{PAPER}, table 2", _SQUAD_ENSEMBLE, "85.8 91.8"),
  *_parse(LARGE, DEV, f"{PAPER}, table 2", _TRIVIAQA, "84.2 91.1 86.2 92.2"),
  *_parse(LARGE, TEST, f"{PAPER}, table 2", _TRIVIAQA, "85.1 91.8 87.4 93.2"),
  *_parse(LARGE, DEV, README, _SQUAD_README, "84.39 90.87"),
  *_parse(LARGE, DEV, _WORDS_PLACE, _WORDS, "91.0 84.3 86.05"),
  *_parse(LARGE, DEV, f"{PAPER}, table 3", _SQUAD_2, "78.7 81.9"),
  *_parse(LARGE, TEST, f"{PAPER}, table 3", _SQUAD_2, "80.0 83.1"),
  *_parse(LARGE, DEV, f"{PAPER}, table 4", "SWAG", "86.6"),
  *_parse(LARGE, TEST, f"{PAPER}, table 4", "SWAG", "86.3"),
  *_parse(CASED_BASE, DEV, f"{PAPER}, table 7", _CONLL, "96.4"),
  *_parse(CASED_BASE, TEST, f"{PAPER}, table 7", _CONLL_TEST, "92.4"),
  *_parse(
    *(CASED_BASE, DEV, f"{PAPER}, table 7"),
    "CoNLL-2003-embeddings CoNLL-2003-second_to_last CoNLL-2003-last "
    "CoNLL-2003-weighted_sum_last_four CoNLL-2003-concat_last_four "
    "CoNLL-2003-weighted_sum_all",
    "91.0 95.6 94.9 95.9 96.1 95.5",
  ),
  *_parse(CASED_LARGE, DEV, f"{PAPER}, table 7", _CONLL, "96.6"),
  *_parse(CASED_LARGE, TEST, f"{PAPER}, table 7", _CONLL_TEST, "92.8"),
  *_parse(CASED_LARGE, DEV, _WORDS_PLACE, _WORDS, "91.5 84.8 86.09"),
  *_parse(f"wwm_{LARGE}", DEV, _WORDS_PLACE, _WORDS, "92.8 86.7 87.07"),
  *_parse(f"wwm_{CASED_LARGE}", DEV, _WORDS_PLACE, _WORDS, "92.9 86.7 86.46"),
  *_parse(
    *("uncased_L-2_H-128_A-2", TEST, _SMALL_PLACE, _SMALL_ALL),
    "0.0 83.2 81.1 71.1 74.3 73.6 62.2 83.4 70.2 70.3 81.5 57.2 62.3 21.0 64.2",
  ),
  *_parse(
    *("uncased_L-4_H-256_A-4", TEST, _SMALL_PLACE, _SMALL_ALL),
    "0.0 85.9 81.1 71.8 75.4 73.3 66.4 86.2 74.8 74.3 84.1 57.9 62.3 26.1 65.8",
  ),
  *_parse(
    *("uncased_L-4_H-512_A-8", TEST, _SMALL_PLACE, _SMALL_ALL),
    "27.8 89.7 83.4 76.2 78.8 77.0 68.1 87.0 77.6 77.0 86.4 61.8 62.3 28.6 "
    "71.2",
  ),
  *_parse(
    *("uncased_L-8_H-512_A-8", TEST, _SMALL_PLACE, _SMALL_ALL),
    "38.0 89.6 86.6 81.6 80.4 78.4 69.6 87.9 80.0 79.1 87.7 62.2 62.3 30.5 "
    "73.5",
  ),
  *_parse(BASE, UNNAMED, f"{PAPER}, 3.1", _NEXT_SENTENCE, "97..98"),
  *_parse(LARGE, UNNAMED, f"{PAPER}, 3.1", _NEXT_SENTENCE, "97..98"),
  *_parse(MULTI, TEST, MULTILINGUAL, _XNLI, "81.9 76.6 77.8 75.9 70.7 61.6"),
  *_parse(
    *(MULTI_UNCASED, TEST, MULTILINGUAL, _XNLI),
    "81.4 74.2 77.3 75.2 70.5 61.7",
  ),
  *_parse(
    *(MULTI_UNCASED, TEST, MULTILINGUAL, _ZERO_SHOT),
    "63.8 74.3 70.5 62.1 58.3",
  ),
  *_parse(
    *(MULTI_UNCASED, TEST, MULTILINGUAL, _TRANSLATED),
    "70.1 74.9 74.4 70.4 62.1",
  ),
  *_parse(CHINESE, TEST, MULTILINGUAL, "XNLI-zh", "77.2"),
  *_parse(CHINESE, DEV, MULTILINGUAL, "XNLI-zh", "77.4"),
)

# The results that make up an average of GLUE: of the mean of each group.
AVERAGES: dict[str, list[list[tuple[str, str]]]] = {
  "average": [[column] for column in _columns(_TABLE_1)],
  "score": [
    list(group)
    for _, group in itertools.groupby(_columns(_SMALL), lambda c: c[0])
  ],
}


def find(model: str, task: str, result: str) -> list[Target]:
  """Returns the targets of a model's result in a task, those on dev first."""
  key = model, task, result
  matching = [t for t in TARGETS if (t.model, t.task, t.result) == key]
  return sorted(matching, key=lambda target: target.split)
