"""Expert parallelism: which rank holds which experts. Standard library only."""
