"""The experiments and the runs that each one compares.

Imports no TensorFlow.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from research.ablations import papers
from research.ablations import scales as scales_lib
from research.ablations import variants as variants_lib
from research.features import config as features_config

# Fractions of the pre-training after which the model is fine-tuned.
_MARKS = (0.125, 0.25, 0.5, 1.0)

# Rows of Table 7 (Devlin et al. 2019) by run_ner's value of feature_layers.
_FEATURE_ROWS = {
  "embeddings": "embeddings",
  "second_to_last": "second to last hidden",
  "last": "last hidden",
  "weighted_sum_last_four": "weighted sum of the last four",
  "concat_last_four": "concatenation of the last four",
  "weighted_sum_all": "weighted sum of all",
}

_CLASSIFICATION = ("QNLI", "MRPC", "SST-2")


def _objectives(make: variants_lib.Builder) -> variants_lib.Experiment:
  tasks = ("MNLI", *_CLASSIFICATION, "SQuAD")
  left_to_right = {"no_nsp": True, "objective": "ltr"}
  right_to_left = {"no_nsp": True, "objective": "rtl"}
  no_nsp, one_way = "masked LM, no NSP", "left to right, no NSP"
  return variants_lib.Experiment(
    name="objectives",
    title="Objectives",
    question="What do both directions and the next-sentence task contribute?",
    variants=(
      make.variant("masked LM and NSP", tasks),
      make.variant(no_nsp, tasks, {"no_nsp": True}),
      make.variant(one_way, tasks, left_to_right, baseline=no_nsp),
      make.variant(
        f"{one_way}, BiLSTM",
        tasks,
        left_to_right,
        baseline=one_way,
        has_bilstm=True,
      ),
      make.variant(
        "right to left, no NSP", tasks, right_to_left, baseline=no_nsp
      ),
    ),
    published=papers.OBJECTIVES,
    remark=(
      "Unidirectional models predict each next token, so their losses are not "
      "comparable with masked-LM losses. The next-sentence task helps with "
      "sentence pairs, if there is enough text to learn it. The paper has no "
      "row for right to left."
    ),
    compares_losses=False,
  )


def _sizes(make: variants_lib.Builder) -> variants_lib.Experiment:
  sizes = make.scale.sizes
  labels = [size.label for size in sizes]
  return variants_lib.Experiment(
    name="sizes",
    title="Model size",
    question="Is a larger model better, even on small tasks?",
    variants=make.variants(
      ("MNLI", *_CLASSIFICATION), {size.label: size._asdict() for size in sizes}
    ),
    published=dataclasses.replace(
      papers.SIZES, row_names=dict(zip(labels, papers.SIZES.numbers))
    ),
    remark=(
      "Our sizes correspond to those of the paper, in the same order. All are "
      "trained for the same number of steps. A small number of steps favours "
      "small models."
    ),
  )


def _steps(make: variants_lib.Builder) -> variants_lib.Experiment:
  variants = []
  num_steps = make.scale.base.num_train_steps
  for mark in _MARKS:
    step = int(mark * num_steps)
    for label, objective, baseline_step in (
      # Shows the gain from more steps.
      ("masked LM", "mlm", num_steps),
      # Shows the effect of the objective.
      ("left to right", "ltr", step),
    ):
      variants.append(
        make.variant(
          f"{label}, {step:,} steps",
          ("MNLI", "QNLI", "SST-2"),
          {"no_nsp": True, "objective": objective},
          baseline=f"masked LM, {baseline_step:,} steps",
          step=step if mark < 1 else None,
        )
      )
  return variants_lib.Experiment(
    name="steps",
    title="Number of steps",
    question="How long does pre-training improve results, by objective?",
    variants=tuple(variants),
    published=papers.STEPS,
    remark=(
      "The checkpoints of an objective come from one pre-training. As in the "
      "paper, the learning rate has not decayed to 0 at the earlier ones."
    ),
    compares_losses=False,
  )


def _masking(make: variants_lib.Builder) -> variants_lib.Experiment:
  splits = {
    "80% mask, 10% same, 10% random": (0.8, 0.1),
    "100% mask": (1.0, 0.0),
    "80% mask, 20% random": (0.8, 0.2),
    "80% mask, 20% same": (0.8, 0.0),
    "20% same, 80% random": (0.0, 0.8),
    "100% random": (0.0, 1.0),
  }
  changes = {
    label: {"mask_prob": mask, "random_prob": random}
    for label, (mask, random) in splits.items()
  }
  variants = make.variants(("NER", "MNLI", "QNLI"), changes, False)
  # The features come from the last four layers, as in Table 8, or from the last
  # layer of a smaller model.
  is_small = make.scale.base.num_hidden_layers < 4
  layers = "last" if is_small else "concat_last_four"
  for variant in variants:
    if ner := variant.fine_tunings.get("NER"):
      features = variants_lib.use_features(ner, layers)
      variant.fine_tunings["NER, features"] = features
  return variants_lib.Experiment(
    name="masking",
    title="What becomes of masked words",
    question="Does it help to keep or replace some of the selected tokens?",
    variants=variants,
    published=papers.MASKING,
    remark=(
      "The paper finds that fine-tuning is robust to the split, and that 100% "
      "[MASK] harms the feature-based approach."
    ),
  )


def _whole_words(make: variants_lib.Builder) -> variants_lib.Experiment:
  return variants_lib.Experiment(
    name="whole_words",
    title="Whole words",
    question="Is it better to mask all word pieces of a word?",
    variants=make.variants(
      ("SQuAD", "MNLI", "QNLI", "SST-2"),
      {"word pieces": {}, "whole words": {"do_whole_word_mask": True}},
    ),
    published=papers.WHOLE_WORDS,
    remark=(
      "Perplexity is measured on single masked word pieces. Only one of the "
      "variants trains on these, so perplexity cannot compare the two."
    ),
  )


def _batch_size(make: variants_lib.Builder) -> variants_lib.Experiment:
  base = make.scale.base
  changes = {
    f"batch x {factor:g}": {
      "train_batch_size": max(1, round(factor * base.train_batch_size)),
      "num_train_steps": max(1, round(base.num_train_steps / factor)),
      # The noise of Adam's updates falls with the square root of the batch.
      "learning_rate": round(base.learning_rate * factor**0.5, 8),
    }
    # The usual batch comes first, since the first variant is the baseline.
    for factor in sorted(make.scale.batch_factors, key=lambda f: f != 1)
  }
  return variants_lib.Experiment(
    name="batch_size",
    title="Batch size at equal words seen",
    question="Are fewer steps with larger batches as good?",
    variants=make.variants(("MNLI", "QNLI", "SST-2"), changes),
    published=papers.BATCH_SIZE,
    remark=(
      "The learning rate grows with the square root of the batch size. There "
      "are few steps here, so large batches lose earlier than in the paper."
    ),
  )


def _feature_layers(make: variants_lib.Builder) -> variants_lib.Experiment:
  num_needed = max(map(features_config.num_needed_layers, _FEATURE_ROWS))
  change: dict[str, Any] = {}
  if make.scale.base.num_hidden_layers < num_needed:
    deep_enough = [
      size for size in make.scale.sizes if size.num_hidden_layers >= num_needed
    ]
    change = deep_enough[0]._asdict() if deep_enough else {}
  base = make.variant("fine-tuning", ("NER",), change)
  variants = [base]
  for layers, label in _FEATURE_ROWS.items():
    num_needed = features_config.num_needed_layers(layers)
    if base.pretraining.num_hidden_layers >= num_needed:
      columns = {
        name: variants_lib.use_features(fine_tuning, layers)
        for name, fine_tuning in base.fine_tunings.items()
      }
      variants.append(
        dataclasses.replace(base, label=label, fine_tunings=columns)
      )
  return variants_lib.Experiment(
    name="feature_layers",
    title="Features of which layers",
    question="How good are fixed features, and from which layers?",
    variants=tuple(variants),
    published=papers.FEATURE_LAYERS,
    remark="A model with four layers has no layers other than its last four.",
  )


def _masking_time(make: variants_lib.Builder) -> variants_lib.Experiment:
  share = make.scale.text_share
  changes: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "static, 10 masks": {"is_static": True, "dupe_factor": 10},
    "static, 1 mask": {"is_static": True},
  }
  return variants_lib.Experiment(
    name="masking_time",
    title="Static and dynamic masking",
    question="Does it help to draw new masks in each pass over the text?",
    variants=make.variants(
      ("SQuAD", "MNLI", "QNLI", "SST-2"),
      {n: {"text_share": share, **change} for n, change in changes.items()},
    ),
    published=papers.MASKING_TIME,
    remark=(
      f"Uses {share:.0%} of the text, so that it is read several times. In a "
      "single pass, static and dynamic masking are equivalent."
    ),
  )


def _packing(make: variants_lib.Builder) -> variants_lib.Experiment:
  return variants_lib.Experiment(
    name="packing",
    title="Packed and padded records",
    question="Is a model as good if short inputs share a row?",
    variants=make.variants(
      ("QNLI", "SST-2"), {"padded": {}, "packed": {"is_packed": True}}
    ),
    remark=(
      "Both train on the same number of rows. Packed rows contain more words; "
      "the curve by word pieces accounts for that."
    ),
  )


def _curves(make: variants_lib.Builder) -> variants_lib.Experiment:
  changes = {name: size._asdict() for name, size in make.scale.curves}
  return variants_lib.Experiment(
    name="curves",
    title="Reference curves",
    question="What does a normal pre-training of this size look like?",
    variants=make.variants((), changes),
    remark="`python -m research.curves.command` draws a run over these curves.",
  )


def _initial_values(make: variants_lib.Builder) -> variants_lib.Experiment:
  names = ("random", "neighbours", "cooccurrence")
  return variants_lib.Experiment(
    name="initial_values",
    title="Initial values",
    question="Does a small model learn sooner from statistics of the text?",
    variants=make.variants((), {n: {"initial_values": n} for n in names}),
    remark="The paper starts from random values.",
  )


# Experiments by name, in the order in which they run.
EXPERIMENTS: dict[
  str, Callable[[variants_lib.Builder], variants_lib.Experiment]
] = {
  "objectives": _objectives,
  "steps": _steps,
  "masking": _masking,
  "feature_layers": _feature_layers,
  "sizes": _sizes,
  "masking_time": _masking_time,
  "whole_words": _whole_words,
  "batch_size": _batch_size,
  "packing": _packing,
  "curves": _curves,
  "initial_values": _initial_values,
}


def build(
  names: Sequence[str], scale: scales_lib.Scale, tasks: Sequence[str]
) -> list[variants_lib.Experiment]:
  """Returns experiments at a scale.

  Args:
    names: names of the experiments, in order. Empty for all.
    scale: sizes, training lengths and the maximum number of variants.
    tasks: names of the tasks that have data.
  """
  if unknown := [name for name in names if name not in EXPERIMENTS]:
    raise ValueError(
      f"no experiments {', '.join(unknown)}; choose from "
      f"{', '.join(EXPERIMENTS)}."
    )
  make = variants_lib.Builder(scale, tasks)
  experiments = [EXPERIMENTS[name](make) for name in names or EXPERIMENTS]
  return [
    experiment
    # max_variants does not apply: every objective runs different code.
    if experiment.name in ("objectives", "initial_values")
    else dataclasses.replace(
      experiment, variants=experiment.variants[: scale.max_variants]
    )
    for experiment in experiments
  ]
