"""The scheduler of vLLM V0: groups of sequences that fork, copy on write and swap."""
