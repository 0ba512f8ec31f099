STORY = "A request that is finished is said to find nothing, since it needs nothing."
CONCEPT = "A request finds what is there, whatever its id, its status and its counters say."
EDITS = [
    ("        if self.enable_prefix_caching:", "        if self.enable_prefix_caching and not request.is_finished:")
]
