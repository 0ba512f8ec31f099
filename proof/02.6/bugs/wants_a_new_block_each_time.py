STORY = (
    "A preempted request must come back to other blocks, says a test that has seen it do so. A correct engine "
    "may give it the same."
)
CONCEPT = "A test for a bug is green where the bug is not, however the engine is written."
EDITS = [
    (
        "def test_any_number_may_share(lab):\n",
        'def test_other_blocks(lab):\n    pool = lab.BlockPool(6)\n    first = pool.get_new_blocks(2)\n    pool.free_blocks(first)\n    assert pool.get_new_blocks(2) != first[::-1], "in reverse"\n    assert not {*pool.get_new_blocks(2)} & {*first}\n\n\ndef test_any_number_may_share(lab):\n',
    ),
]
