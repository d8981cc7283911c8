"""Fills the mask of a text. A process of `benchmark.py predict`.

python transformers_predict.py MODEL_DIR TEXT
"""

import sys

import torch
import transformers

_NUM_TOKENS = 5


def main(model_dir: str, text: str) -> None:
  """Prints the most likely tokens and their probabilities."""
  tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
  model = transformers.AutoModelForMaskedLM.from_pretrained(model_dir).eval()
  inputs = tokenizer(text, return_tensors="pt")
  position = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
  with torch.inference_mode():
    probs = model(**inputs).logits[0, position].softmax(-1)
  best = probs.topk(_NUM_TOKENS)
  for prob, token in zip(best.values.tolist(), best.indices.tolist()):
    print(f"{prob:.4f}  {tokenizer.convert_ids_to_tokens(token)}")


if __name__ == "__main__":
  main(*sys.argv[1:])
