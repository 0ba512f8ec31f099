STORY = "A learner looks for the victim among the last eight, to be fast. The least urgent of a large batch runs on."
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [("max(self.running, key", "max(self.running[-8:], key")]
