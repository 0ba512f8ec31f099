STORY = "The choices of a prompt are added one by one. They meet in the prefix cache, in full blocks, and nobody forks."
CONCEPT = "Choices of one prompt part inside a block: one that writes there may not write for the others."
EDITS = [
    (
        """            self.scheduler.add_group(requests)
""",
        """            for request in requests:
                self.scheduler.add_request(request)
""",
    ),
]
