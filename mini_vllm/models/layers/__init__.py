"""The parts of a decoder-only transformer. Each loads its own weights: it knows their names and
shapes.
"""
