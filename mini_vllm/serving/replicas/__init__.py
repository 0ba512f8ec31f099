"""Several engines behind one front: data parallelism on one machine."""
