"""The type of tensors of any backend of Keras."""

from typing import Any, TypeAlias

# Tensors of all backends, and NumPy's arrays. The packages of the backends have
# no types that a checker could use.
Tensor: TypeAlias = Any
