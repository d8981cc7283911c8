"""Files beside a model's weights: run.json, labels, Hugging Face's folder."""
