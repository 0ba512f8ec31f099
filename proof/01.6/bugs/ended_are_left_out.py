STORY = "A request that has all of its tokens is thought to be gone. In its last step it still holds its slots."
CONCEPT = "One request: what is written, what it will write later into slots that it has, and the rest."
EDITS = [
    (
        """        held = memory.num_held(request_id)
""",
        """        if num_written == jobs[request_id].num_tokens:
            continue
        held = memory.num_held(request_id)
""",
    ),
]
