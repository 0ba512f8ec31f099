"""The reference of labs of phase 07, where the engine's own part needs a GPU: a recorded step, in plain Python."""
