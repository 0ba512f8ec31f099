STORY = (
    "The columns that mean nothing hold 0, as pack() leaves them. Block 0 is a block, and to look it up does no harm."
)
CONCEPT = "A read beyond the sight is noticed only if the value that lies there does harm."
EDITS = [
    (
        "[([2, 10**9, 10**9], 0, 4), ([2, 3, 10**9], 0, 6), ([10**9, 3, 1], 5, 12)]",
        "[([2, 0, 0], 0, 4), ([2, 3, 0], 0, 6), ([0, 3, 1], 5, 12)]",
    ),
]
