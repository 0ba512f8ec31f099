STORY = (
    "The comparison has an equals sign too many: a block that only the writer holds is copied as well, "
    "with every token."
)
CONCEPT = "The last holder of a block writes in place, however the others went."
EDITS = [
    (
        "ref_cnt > 1]",
        "ref_cnt >= 1]",
    ),
]
