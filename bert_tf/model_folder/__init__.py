"""A model's files: finding, reading and writing them."""
