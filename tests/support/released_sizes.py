"""Configs with the proportions of the released models."""

from bert_tf import modeling


def make_config(num_layers, width, vocab_size=30522):
  """Returns a config with heads of size 64, as all released models have."""
  return modeling.BertConfig(
    vocab_size=vocab_size,
    hidden_size=width,
    num_hidden_layers=num_layers,
    num_attention_heads=width // 64,
    intermediate_size=4 * width,
    max_position_embeddings=512,
    type_vocab_size=2,
  )
