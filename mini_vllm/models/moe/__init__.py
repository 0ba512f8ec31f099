"""Mixtures of experts: a router sends each token to a few of many MLPs. A dense checkpoint imports
nothing of it.
"""
