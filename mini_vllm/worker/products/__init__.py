"""Matrix products in which a row has the same bits whatever other rows there are.

batch_invariant.py    cuts products into pieces of such numbers of rows
fixed_shape.py        cuts them into pieces of one number of rows
trial.py              measures the order of a sum: terms that cancel
"""
