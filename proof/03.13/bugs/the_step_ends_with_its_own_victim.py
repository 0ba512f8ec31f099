STORY = "Who gives way itself ends the loop: true for the last of running, and under priority it may be the first."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "                if victim is request:\n                    break\n            else:",
        "                if victim is request:\n                    return token_budget\n            else:",
    ),
]
