STORY = "The rate is rounded to whole percents, as a dashboard shows it."
CONCEPT = "After any lookups the rate is that of the last whole steps that fit into the window."
EDITS = [
    (
        "return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0",
        "return round((all_hits - hits) / (all_queries - queries), 2) if all_queries > queries else 0.0",
    )
]
