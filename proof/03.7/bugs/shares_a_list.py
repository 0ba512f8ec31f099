STORY = (
    "The list of requests is a default argument, so all runs have the same one. A run looks for the requests of the "
    "runs before it."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """    def __init__(self, lab, **options):""",
        """    def __init__(self, lab, added=[], **options):""",
    ),
    (
        """        self.added, self.said, self.slots = [], {}, {}""",
        """        self.added, self.said, self.slots = added, {}, {}""",
    ),
]
