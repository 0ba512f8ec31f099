STORY = (
    "A block that another request holds is not taken for a hit. The most popular prefix is computed again by "
    "all who meet."
)
CONCEPT = "A block is found whether a request holds it or not, and how many are free does not matter."
EDITS = [
    (
        """                if block is None:
                    break
                hits.append(block)
""",
        """                if block is None or block.ref_cnt:
                    break
                hits.append(block)
""",
    ),
]
