"""BERT, its heads, layers, losses and kernels."""
