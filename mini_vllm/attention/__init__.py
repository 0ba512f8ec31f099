"""Attention over a paged KV cache: a ladder of back ends behind one interface.

metadata.py describes a layer and a packed batch; backend.py is the interface, registry.py the
choice. The rungs, each a back end:

    reference.py        plain torch, one query and one block at a time: reads like the chapter, the
                        oracle of the tests
    torch_backend.py    torch's own operators over gathered pages: the fast one on a CPU without a C
                        compiler
    c_backend.py        the fast one on a CPU: native/paged_attention.c, built at first use
    triton_simple.py    the reference as a Triton kernel, one row and one head a program
    triton_backend.py   the fast one on a GPU: write_kv.py and paged_attention.py, over work cut by
                        tiles.py
"""

from mini_vllm.attention.backend import AttentionBackend as AttentionBackend
from mini_vllm.attention.backend import PagedAttention as PagedAttention
from mini_vllm.attention.metadata import AttentionMetadata as AttentionMetadata
from mini_vllm.attention.metadata import AttentionSpec as AttentionSpec
from mini_vllm.attention.metadata import PackedRequest as PackedRequest
from mini_vllm.attention.registry import BACKENDS as BACKENDS
from mini_vllm.attention.registry import candidates as candidates
from mini_vllm.attention.registry import get_backend as get_backend
from mini_vllm.attention.registry import why_not as why_not
from mini_vllm.attention.rotary import Rotation as Rotation
from mini_vllm.attention.rotary import apply_rotary as apply_rotary
