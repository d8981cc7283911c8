"""Export of models as SavedModels and for other runtimes."""
