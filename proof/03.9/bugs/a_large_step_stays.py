STORY = "A learner never drops a step that is larger than the window: the last one always stays, and this one was it."
CONCEPT = "The last step counts however large it is: a window is never empty again."
EDITS = [
    (
        "            edges.popleft()\n",
        "            if edges[1][0] - edges[0][0] > self.max_recent_requests > 1:\n"
        "                break\n"
        "            edges.popleft()\n",
    )
]
