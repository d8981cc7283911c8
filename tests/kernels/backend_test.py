"""Products of transposed matrices."""

import numpy as np
import pytest

from bert_tf.kernels import backend

A = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
B = np.random.default_rng(2).normal(size=(4, 5)).astype(np.float32)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_transposes_its_operands(transpose_a, transpose_b):
  a, b = A.T if transpose_a else A, B.T if transpose_b else B
  result = backend.matmul(
    a, b, transpose_a=transpose_a, transpose_b=transpose_b
  )
  np.testing.assert_allclose(result, A @ B, rtol=1e-5)
