STORY = (
    "Every batch has one request in it. Its row of the table is the first one and the widest, and nobody is missing."
)
CONCEPT = "A read beyond the sight is noticed only if the value that lies there does harm."
EDITS = [
    (
        """        requests = [prompt, waiting, decode]
""",
        """        requests = [prompt]
""",
    ),
    (
        """    for step in [(4, 0, 2), (0, 3, 1), (1, 1, 1), (2, 0, 5)]:
        requests = [lab.PackedRequest(tables[i], lengths[i], step[i]) for i in range(3)]
""",
        """    for step in [(4,), (1,), (2,)]:
        requests = [lab.PackedRequest(tables[i], lengths[i], step[i]) for i in range(1)]
""",
    ),
]
