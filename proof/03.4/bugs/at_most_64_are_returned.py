STORY = (
    "A learner returns a page of 64 requests, as a web service would. The others have ended, and nobody hears of it."
)
CONCEPT = "However many end in one step, all of them leave and all are returned."
EDITS = [("        return finished\n", "        return finished[:64]\n")]
