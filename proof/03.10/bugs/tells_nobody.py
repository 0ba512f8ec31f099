STORY = "A learner looks after the prefix cache and forgets to tell the connector that the step has ended."
CONCEPT = "A copy belongs to one step: in the next one its blocks may belong to another request."
EDITS = [
    (
        "        self.connector.end_step(result)\n",
        "",
    ),
]
