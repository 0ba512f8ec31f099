"""The references of the labs of phase 08 in plain Python, and an engine whose ranks run in one process on them."""
