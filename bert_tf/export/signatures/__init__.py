"""What a SavedModel computes, a module for each kind of model."""
