"""An HTTP server for models, with the paths of TensorFlow Serving."""
