"""What runs as machine code on a CPU: the C sources of attention and of two layers, and what builds
them at first use.

    c_compiler.py        a C file as a library that Python can call
    numerics.h           dtypes and vectors, which the sources share
    paged_attention.c    attention over the cache, and rotation with the cache write; called by
                         attention/c_backend.py
    int8_linear.c        a linear layer with int8 weights; called by models/layers/int8_linear.py
    norm.c               RMSNorm; called by models/layers/norm_c.py

Nothing here imports torch.
"""

from pathlib import Path

SOURCES = Path(__file__).parent
