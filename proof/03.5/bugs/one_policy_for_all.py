STORY = "A learner reads the policy once and keeps it in the class. The second scheduler follows that of the first."
CONCEPT = "Each scheduler follows the policy that it has."
EDITS = [
    (
        ('        if self.policy == "priority":\n'),
        (
            '        vars(Scheduler).get("kept") or setattr(Scheduler, "kept", [self.policy])\n'
            '        if Scheduler.kept[0] == "priority":\n'
        ),
    ),
]
