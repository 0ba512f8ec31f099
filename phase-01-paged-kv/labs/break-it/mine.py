"""Lab 01.7: Break it: tests for paged attention (75 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

import torch

from labkit import check, raises, todo

CPU = torch.device("cpu")


def test_a_token_alone_gets_its_own_value(lab):
    """The softmax of a single score is 1, whatever the score is."""
    key_cache, value_cache = torch.zeros(4, 2, 1, 8), torch.zeros(4, 2, 1, 8)  # 4 blocks of 2 slots, one KV head
    request = lab.PackedRequest(block_ids=[3], num_computed_tokens=0, query_len=1)
    metadata = lab.AttentionMetadata.pack([request], 2, CPU)
    query, key, value = torch.ones(1, 1, 8), torch.ones(1, 1, 8), torch.arange(8.0).view(1, 1, 8)
    backend = lab.ReferenceBackend()
    backend.write_kv(key, value, key_cache, value_cache, metadata)
    spec = lab.AttentionSpec(num_heads=1, num_kv_heads=1, head_dim=8, scale=1.0)
    result = backend.attend(query, key_cache, value_cache, backend.plan(metadata, spec))
    assert torch.allclose(result, value), f"{result} is not {value}"


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("01.7")
