"""Installs bert_tf; the scripts of run_scripts/ run from a checkout."""

import setuptools

setuptools.setup(
  name="bert_tf",
  version="0.1.0",
  description="BERT, as its authors released it, on TensorFlow 2 and Keras 3.",
  license="Apache-2.0",
  python_requires=">=3.10,<3.14",
  packages=setuptools.find_packages(include=["bert_tf", "bert_tf.*"]),
  package_data={"bert_tf": ["py.typed"], "bert_tf.server": ["page.html"]},
  install_requires=[
    "tensorflow>=2.20,<2.22",
    # The same minor version as tensorflow: its compiled operations are bound
    # to it. pip chooses the pair, since tensorflow-text requires its own.
    "tensorflow-text>=2.20,<2.22",
    "keras>=3.12",
    "absl-py",
    "tensorboard",
    "tqdm",
    "scikit-learn",
  ],
  extras_require={
    # tf-models-official 2.20 imports pkg_resources, which setuptools 81 drops.
    "models": ["tf-models-official>=2.20,<2.22", "setuptools<81"],
    "hf": ["safetensors"],
    "ner": ["seqeval"],
    "beam": ["apache-beam"],
    "plots": ["matplotlib"],
    "serve": ["aiohttp>=3.9"],
    "onnx": ["tf2onnx>=1.17", "onnx>=1.17", "onnxruntime>=1.20"],
    "litert": ["ai-edge-litert>=2"],
    "test": [
      "pytest",
      "pytest-xdist",
      "ruff",
      "mypy>=1.18",
      "matplotlib",
      "safetensors",
      "seqeval",
      "apache-beam",
      "aiohttp>=3.9",
      "tf-models-official>=2.20,<2.22",
      "setuptools<81",
      "tf2onnx>=1.17",
      "onnx>=1.17",
      "onnxruntime>=1.20",
      "ai-edge-litert>=2",
    ],
  },
)
