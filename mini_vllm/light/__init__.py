"""The bundled model where torch is not installed, as in a page of the book: an executor in plain
Python and NumPy.

numpy_executor.py keeps the books and lists what is done to the rows of a step, numpy_ops.py
computes, and plain_sampler.py makes a token of a row of logits.
"""
