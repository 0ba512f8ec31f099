STORY = (
    "A learner replaces the rule for victims instead of adding one. Under first come, first served old requests "
    "are thrown out for their number."
)
CONCEPT = "Under first come, first served the victim is the last that was admitted."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        "",
    ),
]
