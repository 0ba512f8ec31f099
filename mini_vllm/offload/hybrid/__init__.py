"""Layers in groups: those that see a window of the past give the blocks behind it back.

groups      what a group sees: all, a window, a chunk
layout      which layers make a group, and what that takes
lookup      the longest hit that all groups have
tables      the block tables of a request, and what windows leave behind
manager     a block table for each group, from one pool
"""
