"""Published results, to compare with ours."""

import dataclasses
from collections.abc import Mapping, Sequence

DEVLIN = (
  "Devlin et al. 2019, BERT: Pre-training of Deep Bidirectional Transformers "
  "for Language Understanding"
)
LIU = "Liu et al. 2019, RoBERTa: A Robustly Optimized BERT Pretraining Approach"

Numbers = Mapping[str, Mapping[str, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
  """A published table, or the description of a figure.

  Rows have the labels of our variants, unless `row_names` maps these. Columns
  have their published names.
  """

  source: str  # The paper or web page.
  place: str  # The table, figure or section.
  # Numbers by row and column; empty for a figure.
  numbers: Numbers = dataclasses.field(default_factory=dict)
  # For a published column, our columns that may stand for it, the best first.
  # Default: our column with the same name.
  stands_for: Mapping[str, Sequence[str]] = dataclasses.field(
    default_factory=dict
  )
  # Published rows by the labels of our variants. Default: the same label.
  row_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
  note: str = ""

  def columns(self, ours: Sequence[str]) -> dict[str, str]:
    """Returns the published column that each of our columns stands for."""
    published: dict[str, str] = {}
    for name in dict.fromkeys(c for r in self.numbers.values() for c in r):
      candidates = self.stands_for.get(name, (name,))
      stand_in = next((c for c in candidates if c in ours), None)
      if stand_in:
        published[stand_in] = name
    return published


def _parse(columns: str, rows: Mapping[str, str]) -> Numbers:
  """Parses column names and, by row label, numbers separated by spaces."""
  return {
    label: {
      name: float(cell) for name, cell in zip(columns.split(), row.split())
    }
    for label, row in rows.items()
  }


OBJECTIVES = Published(
  source=DEVLIN,
  place="Table 5",
  numbers=_parse(
    "MNLI-m QNLI MRPC SST-2 SQuAD",
    {
      "masked LM and NSP": "84.4 88.4 86.7 92.7 88.5",
      "masked LM, no NSP": "83.9 84.9 86.5 92.6 87.9",
      "left to right, no NSP": "82.1 84.3 77.5 92.1 77.8",
      "left to right, no NSP, BiLSTM": "82.1 84.1 75.7 91.6 84.9",
    },
  ),
  stands_for={"MNLI-m": ("MNLI",)},
  note="BERT-Base, development sets: accuracy, and F1 for SQuAD 1.1.",
)

SIZES = Published(
  source=DEVLIN,
  place="Table 6",
  numbers=_parse(
    "LM(ppl) MNLI-m MRPC SST-2",
    {
      "3 x 768, 12 heads": "5.84 77.9 79.8 88.4",
      "6 x 768, 3 heads": "5.24 80.6 82.2 90.7",
      "6 x 768, 12 heads": "4.68 81.9 84.8 91.3",
      "12 x 768, 12 heads": "3.99 84.4 86.7 92.9",
      "12 x 1024, 16 heads": "3.54 85.7 86.9 93.3",
      "24 x 1024, 16 heads": "3.23 86.6 87.8 93.7",
    },
  ),
  stands_for={"LM(ppl)": ("perplexity",), "MNLI-m": ("MNLI", "QNLI")},
  note="Perplexity of held-out masked words; mean accuracy of 5 fine-tunings.",
)

STEPS = Published(
  source=DEVLIN,
  place="Figure 5 and appendix C.1",
  note=(
    "According to the text, 1,000,000 steps instead of 500,000 add almost 1.0% "
    "to the MNLI accuracy of BERT-Base. Masked LM, which predicts 15% of the "
    "words in a batch, converges slightly more slowly than left to right, but "
    "its accuracy is better almost immediately."
  ),
)

MASKING = Published(
  source=DEVLIN,
  place="Table 8",
  numbers=_parse(
    "MNLI NER NER-features",
    {
      "80% mask, 10% same, 10% random": "84.2 95.4 94.9",
      "100% mask": "84.3 94.9 94.0",
      "80% mask, 20% random": "84.1 95.2 94.6",
      "80% mask, 20% same": "84.4 95.2 94.7",
      "20% same, 80% random": "83.7 94.8 94.6",
      "100% random": "83.6 94.9 94.6",
    },
  ),
  stands_for={"MNLI": ("MNLI", "QNLI"), "NER-features": ("NER, features",)},
  note="Development sets. Features come from the last four layers.",
)

FEATURE_LAYERS = Published(
  source=DEVLIN,
  place="Table 7",
  numbers=_parse(
    "Dev-F1",
    {
      "fine-tuning": "96.4",
      "embeddings": "91.0",
      "second to last hidden": "95.6",
      "last hidden": "94.9",
      "weighted sum of the last four": "95.9",
      "concatenation of the last four": "96.1",
      "weighted sum of all": "95.5",
    },
  ),
  stands_for={"Dev-F1": ("NER",)},
  note="BERT-Base, cased, with document context.",
)

WHOLE_WORDS = Published(
  source="The README of google-research/bert, May 31st, 2019",
  place="Whole word masking models",
  numbers=_parse(
    "SQuAD-F1 MultiNLI",
    {"word pieces": "91.0 86.05", "whole words": "92.8 87.07"},
  ),
  stands_for={"SQuAD-F1": ("SQuAD",), "MultiNLI": ("MNLI", "QNLI")},
  note="BERT-Large, uncased.",
)

MASKING_TIME = Published(
  source=LIU,
  place="Table 1",
  numbers=_parse(
    "SQuAD-2.0 MNLI-m SST-2",
    {"static, 10 masks": "78.3 84.3 92.5", "dynamic": "78.7 84.0 92.9"},
  ),
  stands_for={"SQuAD-2.0": ("SQuAD",), "MNLI-m": ("MNLI", "QNLI")},
  note="BERT-Base; medians of 5 fine-tunings; 10 masks over 40 epochs.",
)

BATCH_SIZE = Published(
  source=LIU,
  place="Table 3",
  numbers=_parse(
    "ppl MNLI-m SST-2",
    {
      "batch x 1": "3.99 84.7 92.7",
      "batch x 8": "3.68 85.2 92.9",
      "batch x 32": "3.77 84.6 92.8",
    },
  ),
  stands_for={"ppl": ("perplexity",), "MNLI-m": ("MNLI", "QNLI")},
  note=(
    "BERT-Base, for equal numbers of instances: 1M steps of 256, 125K of 2K, "
    "31K of 8K."
  ),
)
