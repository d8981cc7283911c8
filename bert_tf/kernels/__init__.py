"""Optimised operations, each with a plain form that tests compare with.

No module here depends on BERT. `backend` holds branches on Keras' backend.
"""
