"""Hugging Face's Trainer on a task of the same size, to be killed.

The Trainer resumes from its newest checkpoint, as its documentation recommends.
"""

import pathlib

import torch
import transformers
from transformers import trainer_utils

from tests.chaos import bert_run, trainer
from tests.support import runs


class _Records(torch.utils.data.Dataset):
  """Random token ids, with the number and length of bert_run's records."""

  def __init__(self) -> None:
    rows = torch.Generator().manual_seed(1)
    self._ids = torch.randint(5, 500, (40, 16), generator=rows)

  def __len__(self) -> int:
    return len(self._ids)

  def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
    ids = self._ids[index]
    return {
      "input_ids": ids,
      "attention_mask": torch.ones_like(ids),
      "labels": ids,
    }


def train(output_dir: str, operations: trainer.Operations) -> None:
  """Trains to the end, from the newest checkpoint if there is one."""
  del operations  # This run is only killed at random moments.
  transformers.set_seed(1)
  sizes = {n: v for n, v in runs.CONFIG.items() if n != "initializer_range"}
  model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
  arguments = transformers.TrainingArguments(
    output_dir=output_dir,
    per_device_train_batch_size=4,
    learning_rate=1e-3,
    max_steps=bert_run.NUM_STEPS,
    save_steps=bert_run.SAVE_STEPS,
    save_total_limit=2,
    seed=1,
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
  )
  started = transformers.Trainer(model, arguments, train_dataset=_Records())
  newest = None
  if pathlib.Path(output_dir).is_dir():
    newest = trainer_utils.get_last_checkpoint(output_dir)
  started.train(resume_from_checkpoint=newest)
  final = pathlib.Path(output_dir) / f"model.ckpt-{bert_run.NUM_STEPS}"
  weights = b"".join(
    value.numpy().tobytes() for value in model.state_dict().values()
  )
  # kills.read_weights reads the files of this name.
  final.with_name(final.name + ".index").write_bytes(weights)
