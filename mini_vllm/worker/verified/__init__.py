"""The same tokens in every batch by verify and roll back: decode freely, and verify in one shape.

    executor.py    the model drafts for itself, and a step verifies what it has drafted

The shape is that of worker/products/fixed_shape.py; batch_invariant.py beside it is the other way,
which makes every step invariant. Source: LLM-42 (arXiv 2601.17768).
"""
