STORY = "The loop asks again after the asker itself has given way: for a request that no longer runs."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "                if victim is request:\n                    break\n            else:\n                output.add(request, n)\n                token_budget -= n\n",
        "                while victim is request:\n                    pass\n            output.add(request, n)\n            token_budget -= n\n",
    ),
]
