"""The tokenizer as TensorFlow operations."""
