"""Blocks of another engine, the worker's half: a server that lends them, and threads that pull."""
