STORY = (
    "A learner collects the taken blocks on a stack and returns it as it is. A block table of three blocks is "
    "then filled from its end."
)
CONCEPT = "Several are taken at once from the front; the queue goes on where they ended."
EDITS = [
    ("taken.append(block)", "taken.insert(0, block)"),
]
