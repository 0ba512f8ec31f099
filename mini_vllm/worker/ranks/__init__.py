"""One process for each rank of a model: the parent's executor, and what runs in each process."""
