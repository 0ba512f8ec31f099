STORY = (
    "The test reads what the online softmax keeps between two pieces. Other ways keep other numbers and give "
    "the same mean."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """def test_large_scores(lab):
""",
        """def test_running_numbers(lab):
    softmax = lab.OnlineSoftmax(1, 1, 1, CPU)
    softmax.add(torch.zeros(1, 1, 3), torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1))
    check()("the sum of the values", softmax.weighted_sum.item(), equals=9.0)


def test_large_scores(lab):
""",
    ),
]
