STORY = (
    "Who runs is looked up after schedule(), so nobody is ever new in a step. The loop over newcomers turns zero times."
)
CONCEPT = "An order shows only in a crowd: let those behind fit where the one in front does not."
EDITS = [
    (
        """            if scheduler.policy == "fcfs" or request not in ran:
""",
        """            if scheduler.policy == "fcfs" or request not in [*ran, *scheduler.running]:
""",
    ),
]
