"""What the models are made of, on any backend of Keras."""
