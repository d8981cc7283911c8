"""Marks that skip tests of 16-bit matrix products if these would crash.

ONEDNN_MAX_CPU_ISA forbids oneDNN some instructions that the processor has.
TensorFlow 2.20 and 2.21 only ask the processor, call oneDNN and end with a
segmentation fault.
"""

import os

import pytest

ARE_FORBIDDEN = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT") != "DEFAULT"
needed = pytest.mark.skipif(
  ARE_FORBIDDEN, reason="ONEDNN_MAX_CPU_ISA forbids products of 16 bits"
)
NAMES = [pytest.param(n, marks=needed) for n in ("bfloat16", "float16")]
BFLOAT16 = NAMES[0]
