"""Times steps of transformers on PyTorch, as a careful user writes them.

A process of `benchmark.py train` and `forward`. Logits are computed at
the masked positions only, AdamW is the fused one, and bfloat16 is autocast.
"""

from collections.abc import Callable, Mapping

import step_timing
import torch
import transformers
from torch.nn import functional


def main() -> None:
  """Times the steps of one setting."""
  settings = step_timing.read_settings()
  torch.manual_seed(0)
  config = transformers.BertConfig(
    **settings.sizes, hidden_act="gelu_pytorch_tanh"
  )
  make = _forward_step if settings.task == "forward" else _training_step
  size = step_timing.PRODUCT_SIZES[settings.device]
  matrix = torch.randn([size, size]).to(
    _device(settings), getattr(torch, settings.precision)
  )
  step_timing.report(
    settings,
    f"PyTorch {torch.__version__}, transformers {transformers.__version__}",
    make(config, settings),
    lambda: (matrix @ matrix)[0, 0].item(),
    torch.cuda.max_memory_allocated if settings.device == "gpu" else None,
  )


def _device(settings: step_timing.Settings) -> str:
  """Returns PyTorch's name of the device."""
  return {"cpu": "cpu", "gpu": "cuda"}[settings.device]


def _autocast(settings: step_timing.Settings) -> torch.autocast:
  """Returns the context in which a step of that precision runs."""
  return torch.autocast(
    _device(settings),
    torch.bfloat16,
    enabled=settings.precision == "bfloat16",
  )


def _encoder_inputs(
  batch: step_timing.Batch, device: str
) -> dict[str, torch.Tensor]:
  """Returns what the encoder takes."""
  names = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
  }
  return {
    name: torch.from_numpy(batch[ours]).long().to(device)
    for name, ours in names.items()
  }


def _loss(
  model: transformers.BertForPreTraining,
  inputs: Mapping[str, torch.Tensor],
  positions: torch.Tensor,
  labels: torch.Tensor,
  next_sentence_labels: torch.Tensor,
) -> torch.Tensor:
  """Returns the loss; positions count through the batch, int64 [masked]."""
  sequence, pooled = model.bert(**inputs)[:2]
  masked = sequence.flatten(0, 1)[positions]
  return functional.cross_entropy(
    model.cls.predictions(masked).float(), labels
  ) + functional.cross_entropy(
    model.cls.seq_relationship(pooled).float(), next_sentence_labels
  )


def _training_step(
  config: transformers.BertConfig, settings: step_timing.Settings
) -> Callable[[], object]:
  """Returns a pre-training step with clipping and weight decay."""
  device = _device(settings)
  model = transformers.BertForPreTraining(config).train().to(device)
  plain = [p for p in model.parameters() if p.ndim == 1]
  decayed = [p for p in model.parameters() if p.ndim > 1]
  optimizer = torch.optim.AdamW(
    [{"params": decayed}, {"params": plain, "weight_decay": 0.0}],
    lr=1e-4,
    eps=1e-6,
    weight_decay=0.01,
    fused=True,
  )
  batch = step_timing.batch_of(settings)
  inputs = _encoder_inputs(batch, device)
  # As a collator hands them over: those with weight, counted in the batch.
  rows, columns = batch["masked_lm_weights"].nonzero()
  flat = rows * settings.length + batch["masked_lm_positions"][rows, columns]
  positions, labels, next_labels = (
    torch.from_numpy(values).long().to(device)
    for values in (
      flat,
      batch["masked_lm_ids"][rows, columns],
      batch["next_sentence_labels"][:, 0],
    )
  )
  loss_of = torch.compile(_loss) if settings.compiled else _loss

  def step() -> None:
    with _autocast(settings):
      loss = loss_of(model, inputs, positions, labels, next_labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    loss.item()

  return step


def _forward_step(
  config: transformers.BertConfig, settings: step_timing.Settings
) -> Callable[[], object]:
  """Returns the encoder's forward pass, without dropout."""
  device = _device(settings)
  model = transformers.BertModel(config).eval().to(device)
  run = torch.compile(model) if settings.compiled else model
  inputs = _encoder_inputs(step_timing.batch_of(settings), device)

  def step() -> None:
    with torch.inference_mode(), _autocast(settings):
      # Waits for a GPU.
      run(**inputs).last_hidden_state[0, 0, 0].item()

  return step


if __name__ == "__main__":
  main()
