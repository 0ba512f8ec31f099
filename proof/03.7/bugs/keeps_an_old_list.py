STORY = (
    "The list of those that run is fetched once, at the beginning. An engine may make a new list in each step, and "
    "the old one tells nothing."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """        self.num_slots = self.kv.num_usable_blocks""",
        """        self.running = self.scheduler.running
        self.num_slots = self.kv.num_usable_blocks""",
    ),
    (
        """    see("who runs or waits", names([*scheduler.running, *scheduler.waiting]), equals=names(run.alive))
""",
        """    see("who runs or waits", names([*run.running, *scheduler.waiting]), equals=names(run.alive))
""",
    ),
]
