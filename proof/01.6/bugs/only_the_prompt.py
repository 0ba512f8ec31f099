STORY = "What is to come is measured from the prompt. With each token that is written, a slot is counted twice."
CONCEPT = "One request: what is written, what it will write later into slots that it has, and the rest."
EDITS = [
    (
        """        reserved += ever - num_written
""",
        """        reserved += ever - jobs[request_id].prompt_len
""",
    ),
]
