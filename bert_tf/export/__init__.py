"""SavedModels and other runtimes."""
