STORY = "There is one request in each batch, so every row is its row."
CONCEPT = "A slot shows its faults behind the first block, and in company: go there with every test."
EDITS = [
    (
        "    for size in (1, 3, 4, 16):\n        requests = [\n            lab.PackedRequest([7, 2, 9], 0, 2 * size + 1),\n            lab.PackedRequest([4, 8, 1, 6], size + 1, 2 * size),\n            lab.PackedRequest([5, 0, 3], 3 * size - 1, 1),\n        ]\n",
        "    for size in (1, 3, 4, 16):\n        requests = [lab.PackedRequest([4, 8, 1, 6], size + 1, 2 * size)]\n",
    ),
]
