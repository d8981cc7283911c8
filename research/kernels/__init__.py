"""Sources of the GPU kernels in bert_tf/kernels/triton."""
