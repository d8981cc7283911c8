"""What is trained: one module a task."""
