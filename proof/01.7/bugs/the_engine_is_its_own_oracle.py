STORY = "What one way of the engine gives is compared with what its other way gives. Both have the same wrong heads."
CONCEPT = "Attention has a definition that knows no blocks; what the blocks give is held against it."
EDITS = [
    (
        """        agree(what, got, query, keys[begin:], values[begin:], 0.3)
""",
        """        again = lab.attend_one(query, *places(table, block_size, keys, values), table, begin, end, 0.3)
        assert torch.allclose(got, again), what
""",
    ),
    (
        """            agree(what, result[row], query[row], keys[i, seen], values[i, seen], 0.3)
""",
        """            again = lab.attend_one(query[row], key_cache, value_cache, tables[i], seen.start, seen.stop, 0.3)
            assert torch.allclose(result[row], again), what
""",
    ),
]
