"""Simulated tiers: main memory and a disk behind the prefix cache of a replica.

    options.py     how large and how fast they are, and when a load is worth its time
    disk.py        a clock for the jobs of an io thread
    replica.py     a replica whose scheduler has the real connector, and simulate_tiers()

What is stored, found, held and evicted is decided by mini_vllm/offload/tiers. Only the seconds are
simulated.
"""
