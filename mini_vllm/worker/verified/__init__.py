"""The same tokens in every batch by verify and roll back: decode freely, and verify in one shape.

    fixed_shape.py    products of one number of rows, whatever the batch has
    executor.py       the model drafts for itself, and a step verifies what it has drafted

worker/batch_invariant.py is the other way: it makes every step invariant. Source: LLM-42 (arXiv
2601.17768).
"""
