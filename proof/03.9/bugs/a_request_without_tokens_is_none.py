STORY = "A learner asks whether tokens were looked up, and takes a step of requests without tokens for an idle one."
CONCEPT = "A request that looks up no token is a request: it takes its place in the window, and finds nothing."
EDITS = [
    (
        "        if stats.requests == edges[-1][0]:\n",
        "        if stats.queries == edges[-1][1]:\n",
    ),
]
