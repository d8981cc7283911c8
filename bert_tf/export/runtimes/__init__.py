"""Conversion to ONNX and LiteRT."""
