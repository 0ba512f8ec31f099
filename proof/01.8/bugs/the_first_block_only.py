STORY = "Scores are large in the first block only, and no later piece ever brings a new maximum."
CONCEPT = "Pieces of a softmax are right by themselves: let the largest score lie in each of them."
EDITS = [
    (
        "        [*[0] * 8, *[50] * 4],\n",
        "",
    ),
    (
        "        [0, 1, 2, 3, 40, 41, 42, 43, 78, 79, 80, 80],\n",
        "",
    ),
    (
        "        [-80, -79, 0, 0, -3, 2, 1, 3, -70, 2, 3, -1],\n",
        "",
    ),
    (
        "scores[-1 - place]",
        "score",
    ),
    (
        "        [3, -2, 1, 0, -4, -3, -3, -2, -5, -1, -6, -2],\n",
        "",
    ),
]
