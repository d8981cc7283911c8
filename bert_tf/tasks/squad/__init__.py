"""Question answering on SQuAD."""
