STORY = "All scores are equal. Every softmax is then a mean."
CONCEPT = "Pieces of a softmax are right by themselves: let the largest score lie in each of them."
EDITS = [
    (
        "for place, score in enumerate(scores)]",
        "for place, _ in enumerate(scores)]",
    ),
    (
        "[score, scores[-1 - place]]",
        "[0, 0 * place]",
    ),
]
