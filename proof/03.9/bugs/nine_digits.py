STORY = "A learner rounds to nine digits, as nobody reads more. Sums of such figures drift."
CONCEPT = "No figure is rounded: a third is a third, to the last digit that a float has."
EDITS = [
    (
        "        return (all_hits - hits) / (all_queries - queries) if",
        "        return round((all_hits - hits) / (all_queries - queries), 9) if",
    ),
]
