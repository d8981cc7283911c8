"""The encoder of transformers, to compare with that of a SavedModel."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
import transformers


def load(model_dir: str) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
  """Returns a function from ids, int32 [B, F], to vectors, float32 [B, D]."""
  model = transformers.BertModel.from_pretrained(model_dir).eval()

  def call(ids: Mapping[str, np.ndarray]) -> np.ndarray:
    with torch.inference_mode():
      output = model(
        input_ids=torch.tensor(ids["input_ids"], dtype=torch.long),
        attention_mask=torch.tensor(ids["input_mask"], dtype=torch.long),
        token_type_ids=torch.tensor(ids["segment_ids"], dtype=torch.long),
      )
      return output.last_hidden_state.numpy()[:, 0]

  return call
