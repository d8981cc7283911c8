"""File formats: Hugging Face's models and tokenizers, tables of examples."""
