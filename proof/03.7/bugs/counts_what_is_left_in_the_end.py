STORY = (
    "Places and blocks are counted once, when nobody is left. What was forgotten on the way has been put right by "
    "then, and who was named or returned is not asked."
)
CONCEPT = "Count places and blocks before and after the model runs: a request that leaves frees all of its own."
EDITS = [
    (
        """        look_at_the_places(self)
        look_at_the_victims(self, output, ran)
""",
        "",
    ),
    (
        """        look_at_the_places(self)
        look_at_the_ended(self, before, finished)
""",
        "",
    ),
    (
        """        look_at_the_end(self)
""",
        """        look_at_the_end(self)
        look_at_the_places(self)
""",
    ),
]
