STORY = "The rate is rounded to whole percents, as a dashboard shows it."
CONCEPT = "No figure is rounded: a third is a third, to the last digit that a float has."
EDITS = [
    (
        "return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0",
        "return round((all_hits - hits) / (all_queries - queries), 2) if all_queries > queries else 0.0",
    )
]
