"""Tiers behind the prefix cache, the worker's half: copies of blocks, and io threads."""
