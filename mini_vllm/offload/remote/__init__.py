"""Blocks of another engine: one engine computes prompts and leases their blocks, another one pulls
them and decodes.
"""
