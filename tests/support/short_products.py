"""Whether products of 16 bits can be computed here.

ONEDNN_MAX_CPU_ISA forbids oneDNN instructions that the processor has.
TensorFlow asks the processor, calls oneDNN for them all the same, and ends with
a segmentation fault (2.20 and 2.21).
"""

import os

import pytest

ARE_FORBIDDEN = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT") != "DEFAULT"
needed = pytest.mark.skipif(
  ARE_FORBIDDEN, reason="ONEDNN_MAX_CPU_ISA forbids products of 16 bits"
)
NAMES = [pytest.param(n, marks=needed) for n in ("bfloat16", "float16")]
BFLOAT16 = NAMES[0]
