STORY = "A block counts as cached if its name is true. A block with the name 0 goes to the front."
CONCEPT = "A name may be any value but None: blocks named 0, b'' and False wait at the back like others."
EDITS = [
    (
        """                (useless if block.block_hash is None else cached).append(block)
""",
        """                (useless if not block.block_hash else cached).append(block)
""",
    ),
]
