STORY = (
    "Where everything should be given there is room to spare, and elsewhere None is taken for an answer, "
    "whatever the reason. A manager that refuses what it could give passes."
)
CONCEPT = "Work out the price yourself, and compare all that you can see before and after a refusal."
EDITS = [
    (
        "Engine(lab, 1 + ceil(33 / size), size)",
        "Engine(lab, 50, size)",
    ),
    (
        """        assert (new is not None) == (price <= len(before["free"])), f"I4: it costs {price} free blocks"
""",
        """        assert new is None or price <= len(before["free"]), f"I4: it costs {price} free blocks"
""",
    ),
]
