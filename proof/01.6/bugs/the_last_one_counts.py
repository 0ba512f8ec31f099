STORY = "The three numbers are set for each request, not added up. Those of the last one are what is returned."
CONCEPT = "All that run are added up, each by its own lengths: an id is the place in jobs."
EDITS = [
    (
        """        used += num_written
        reserved += ever - num_written
        wasted += held - ever
""",
        """        used = num_written
        reserved = ever - num_written
        wasted = held - ever
""",
    ),
]
