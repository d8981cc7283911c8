"""Synthetic rows of ablation runs."""

from research.ablations import runs


def row(run, value, error=None, text="t"):
  """Returns the row of a run, with `value` for all its results."""
  steps = [1, 10, 100]
  curve = {
    "step": steps,
    "word_pieces": [100 * step for step in steps],
    "masked_lm_loss": [9.0, 7.0 + run.seed, value],
    "masked_lm_accuracy": [0.0, 0.1, 0.2],
  }
  is_pretraining = run.kind == "pretraining"
  names = ("perplexity", "masked_lm_loss") if is_pretraining else ("score",)
  return runs.Row(
    kind=run.kind,
    config=run.config,
    seed=run.seed,
    data={"train.txt": text, "train": "files of the task"},
    results={} if error else dict.fromkeys(names, value),
    curve={"training": curve} if is_pretraining and not error else {},
    error=error,
    seconds=3.0,
    versions={"bert_tf": "0", "commit": "abc", "tensorflow": "2"},
    machine="a machine",
  )
