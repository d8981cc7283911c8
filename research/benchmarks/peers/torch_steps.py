"""Times steps of transformers on PyTorch, as a careful user writes them.

A process of `benchmark.py train` and `forward`. Logits are computed at the
masked positions only, AdamW is fused, and bfloat16 uses autocast.
"""

import json
import pathlib
from collections.abc import Mapping

import step_timing
import torch
import transformers
from torch.nn import functional


def main() -> None:
  """Times the steps that the command-line argument describes."""
  torch.manual_seed(0)
  step_timing.run(
    f"PyTorch {torch.__version__}, transformers {transformers.__version__}",
    _training_step,
    _forward_step,
    _product,
    torch.cuda.max_memory_allocated,
    _profile,
  )


def _profile(folder: str, run: step_timing.Step) -> None:
  """Writes the milliseconds of each GPU kernel per step."""
  with torch.profiler.profile() as profiler:
    run()
  times = {
    event.key: event.self_device_time_total
    / (1e3 * step_timing.NUM_PROFILED_STEPS)
    for event in profiler.key_averages()
    if event.device_type != torch.profiler.DeviceType.CPU
  }
  path = pathlib.Path(folder)
  path.mkdir(parents=True, exist_ok=True)
  (path / "kernels.json").write_text(json.dumps(times))


def _product(settings: step_timing.Settings) -> step_timing.Step:
  size = settings.product_size
  matrix = torch.randn([size, size]).to(
    _device(settings), getattr(torch, settings.precision)
  )
  return lambda: (matrix @ matrix)[0, 0].item()


def _config(settings: step_timing.Settings) -> transformers.BertConfig:
  return transformers.BertConfig(
    **settings.sizes, hidden_act="gelu_pytorch_tanh"
  )


def _device(settings: step_timing.Settings) -> str:
  """Returns the PyTorch name of the device."""
  return {"cpu": "cpu", "gpu": "cuda"}[settings.device]


def _autocast(settings: step_timing.Settings) -> torch.autocast:
  is_enabled = settings.precision == "bfloat16"
  return torch.autocast(_device(settings), torch.bfloat16, enabled=is_enabled)


def _encoder_inputs(
  batch: step_timing.Batch, device: str
) -> dict[str, torch.Tensor]:
  """Returns the encoder's inputs, int64 [B, F], as transformers names them."""
  names = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
  }
  return {
    name: torch.from_numpy(batch[feature]).long().to(device)
    for name, feature in names.items()
  }


def _loss(
  model: transformers.BertForPreTraining,
  inputs: Mapping[str, torch.Tensor],
  positions: torch.Tensor,
  labels: torch.Tensor,
  next_sentence_labels: torch.Tensor,
) -> torch.Tensor:
  """Returns the pre-training loss.

  Args:
    model: computes the logits.
    inputs: int64 [B, F] by name.
    positions: int64 [M]. Indices of the masked tokens in the flattened batch.
    labels: int64 [M]. Original tokens at these positions.
    next_sentence_labels: int64 [B].
  """
  sequence, pooled = model.bert(**inputs)[:2]
  masked = sequence.flatten(0, 1)[positions]
  return functional.cross_entropy(
    model.cls.predictions(masked).float(), labels
  ) + functional.cross_entropy(
    model.cls.seq_relationship(pooled).float(), next_sentence_labels
  )


def _training_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns a pre-training step with clipping and weight decay."""
  device = _device(settings)
  model = transformers.BertForPreTraining(_config(settings)).train().to(device)
  not_decayed = [p for p in model.parameters() if p.ndim == 1]
  decayed = [p for p in model.parameters() if p.ndim > 1]
  optimizer = torch.optim.AdamW(
    [{"params": decayed}, {"params": not_decayed, "weight_decay": 0.0}],
    lr=1e-4,
    eps=1e-6,
    weight_decay=0.01,
    fused=True,
  )
  batch = settings.batch()
  inputs = _encoder_inputs(batch, device)
  # A data collator returns only masked positions, as indices in the batch.
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
  compute_loss = torch.compile(_loss) if settings.compiled else _loss

  def step() -> None:
    with _autocast(settings):
      loss = compute_loss(model, inputs, positions, labels, next_labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    loss.item()

  return step


def _forward_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns the encoder's forward pass, without dropout."""
  device = _device(settings)
  model = transformers.BertModel(_config(settings)).eval().to(device)
  run = torch.compile(model) if settings.compiled else model
  inputs = _encoder_inputs(settings.batch(), device)

  def step() -> None:
    with torch.inference_mode(), _autocast(settings):
      # Reading a number waits for the GPU.
      run(**inputs).last_hidden_state[0, 0, 0].item()

  return step


if __name__ == "__main__":
  main()
