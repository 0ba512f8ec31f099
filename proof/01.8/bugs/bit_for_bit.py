STORY = "The result must be that of torch, to the last bit. Sums in another order are as right."
CONCEPT = "A test for a bug is green where the bug is not, however the engine is written."
EDITS = [
    (
        "def test_the_largest_score_in_any_block(lab):\n",
        "def test_the_last_bits(lab):\n    random = torch.Generator().manual_seed(2)\n    keys, values = torch.randn(12, 1, 8, generator=random), torch.randn(12, 1, 8, generator=random)\n    query = torch.randn(4, 8, generator=random)\n    got = lab.attend_one(query, keys.view(3, 4, 1, 8), values.view(3, 4, 1, 8), [0, 1, 2], 0, 12, 1.0)\n    assert torch.equal(got, torch.softmax(query @ keys[:, 0].T, -1) @ values[:, 0])\n\n\ndef test_the_largest_score_in_any_block(lab):\n",
    ),
]
