STORY = "A learner takes 0 for no limit, as in many options. Here it is a window with the last step alone."
CONCEPT = "After any lookups the rate is that of the last whole steps that fit into the window."
EDITS = [
    (
        "        self.max_recent_requests = max_recent_requests\n",
        "        self.max_recent_requests = max_recent_requests or float('inf')\n",
    )
]
