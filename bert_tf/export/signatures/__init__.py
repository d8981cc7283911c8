"""Functions of SavedModels, one module for each kind of model."""
