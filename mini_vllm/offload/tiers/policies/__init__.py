"""What main memory lets go of first, and whether a disk is worth waiting for."""
