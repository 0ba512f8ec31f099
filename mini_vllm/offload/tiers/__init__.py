"""Tiers behind the prefix cache: what leaves the device stays in main memory and on a disk, and is
found again by the name of its content.
"""
