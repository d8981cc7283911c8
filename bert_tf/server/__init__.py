"""A server of one model, with the paths of TensorFlow Serving."""
