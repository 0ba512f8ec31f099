STORY = "The last count is given again if what is held and written is the same. The lengths of the jobs have changed."
CONCEPT = "Each count starts afresh: holders, jobs and written slots may have changed since the last one."
EDITS = [
    (
        """    used = reserved = wasted = 0
""",
        """    key = (id(memory), tuple((i, n, memory.num_held(i)) for i, n in written.items()), refused, memory.num_slots)
    if usage_of.__dict__.get("key") == key:
        return usage_of.usage
    used = reserved = wasted = 0
""",
    ),
    (
        """    return Usage(used, reserved, wasted, left if is_stranded else 0, 0 if is_stranded else left)
""",
        """    usage_of.key, usage_of.usage = key, Usage(used, reserved, wasted, left if is_stranded else 0, 0 if is_stranded else left)
    return usage_of.usage
""",
    ),
]
