"""Labs whose answer is a kernel: how one that leaves its arrays is caught.

in_c.py        lab 01.9's part of the reference, and what calls it
c_process.py   the process in which a learner's C runs
strays.py      what a kernel in Triton touches outside of its tensors
"""
