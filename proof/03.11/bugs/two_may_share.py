STORY = "Two holders are taken for one and a spare: only a block with three of them is copied."
CONCEPT = "A request that writes into a shared block gets a block of its own; the other holders keep theirs."
EDITS = [
    (
        "ref_cnt > 1]",
        "ref_cnt > 2]",
    ),
]
