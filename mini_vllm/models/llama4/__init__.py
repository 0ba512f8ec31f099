"""Llama 4, text: layers that see a chunk of the past, and experts beside one that all tokens have.

model       the layers
experts     the experts of a layer, and which of them a token goes to
"""
