"""The layers of the models, on any backend of Keras."""
