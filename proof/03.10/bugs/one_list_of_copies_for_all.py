STORY = "The copies of the step lie in a dictionary of the module. A second manager tells those of the first."
CONCEPT = "Two managers know nothing of each other, though their requests have the same names."
EDITS = [
    (
        'class HostMemoryConnector(ReferenceHostMemoryConnector):\n    """What is not defined here is the reference\'s."""\n',
        'COPIES = {}\n\n\nclass HostMemoryConnector(ReferenceHostMemoryConnector):\n    """What is not defined here is the reference\'s."""\n\n    def __init__(self, num_blocks: int) -> None:\n        super().__init__(num_blocks)\n        COPIES.clear()\n        self._loading = COPIES\n',
    ),
]
