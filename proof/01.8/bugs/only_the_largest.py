STORY = "Only which value is the largest is compared, as for a letter that is said."
CONCEPT = "Pieces of a softmax are right by themselves: let the largest score lie in each of them."
EDITS = [
    (
        '    error = (got.double() - wanted).abs().max().item()\n        assert error <= 1e-5 * values.abs().max().item(), f"scores {scores}: off by {error:.2g}"',
        '    assert got.argmax() == wanted.argmax(), f"scores {scores}"',
    ),
]
