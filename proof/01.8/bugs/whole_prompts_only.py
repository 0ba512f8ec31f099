STORY = "All that is computed begins with position 0, so nobody can begin to count anew."
CONCEPT = "A slot shows its faults behind the first block, and in company: go there with every test."
EDITS = [
    (
        "[4, 8, 1, 6], size + 1, 2 * size)",
        "[4, 8, 1, 6], 0, 3 * size + 1)",
    ),
    (
        "[5, 0, 3], 3 * size - 1, 1)",
        "[5, 0, 3], 0, 3 * size)",
    ),
]
