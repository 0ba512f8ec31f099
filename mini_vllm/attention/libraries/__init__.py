"""Rungs that stand on a package of their own, imported when they are chosen.

needs.py               what keeps a rung of a package from running here
flashinfer_backend.py  FlashInfer's paged decode and prefill
cutedsl_backend.py     a paged decode kernel in CuTe DSL, chunks on the Triton rung
"""
