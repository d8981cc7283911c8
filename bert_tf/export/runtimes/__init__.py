"""ONNX and LiteRT."""
