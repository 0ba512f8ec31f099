"""What layers of one step share, whatever their group.

plans       one plan for all layers that attend alike
chunks      the batch as layers see it whose tokens see a chunk of the sequence
"""
