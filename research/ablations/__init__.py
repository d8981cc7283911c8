"""The paper's ablations as experiments that anyone can run."""
