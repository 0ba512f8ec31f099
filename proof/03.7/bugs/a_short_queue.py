STORY = (
    "Under priority nobody waits when a victim comes back to the queue. The law about the order is there, and has "
    "nothing to look at."
)
CONCEPT = "An order shows only in a crowd: let those behind fit where the one in front does not."
EDITS = [
    (
        """    run.add("c", 5, priority=5, arrival_time=2.0)
""",
        "",
    ),
]
