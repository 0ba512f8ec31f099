STORY = "A learner defers a head whose charge is the whole budget until nobody runs: then there is time for it."
CONCEPT = "A hit is charged once, on admission, and cuts no prompt: alone, a prompt is cut by what it computes."
EDITS = [
    (
        "                if output.num_scheduled_tokens:\n",
        "                if output.num_scheduled_tokens or (num_charged >= token_budget and self.running):\n",
    ),
]
