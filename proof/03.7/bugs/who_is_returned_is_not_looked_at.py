STORY = (
    "The author looks at the requests and throws away what the update returns. Whoever waits for an answer gets one "
    "for a request that was aborted."
)
CONCEPT = "Count places and blocks before and after the model runs: a request that leaves frees all of its own."
EDITS = [
    (
        """        look_at_the_ended(self, before, finished)
""",
        "",
    ),
]
