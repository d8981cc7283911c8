"""Optimised operations, each with its plain form.

No module here knows BERT. `backend` holds all branches on the backend of Keras.
"""
