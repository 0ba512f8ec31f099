STORY = "The loop counts to the length of running and takes from a copy: each victim costs the last one its turn."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "        for request in requests:\n",
        "        for number, request in enumerate(requests):\n            if number >= len(self.running):\n                break\n",
    ),
]
