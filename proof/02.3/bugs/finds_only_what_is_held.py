STORY = "Only a block that another request holds is taken for a hit, so nothing outlives its last user."
CONCEPT = "A block is found whether a request holds it or not, and how many are free does not matter."
EDITS = [
    (
        """                if block is None:
                    break
                hits.append(block)
""",
        """                if block is None or not block.ref_cnt:
                    break
                hits.append(block)
""",
    ),
]
