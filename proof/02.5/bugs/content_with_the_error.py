STORY = "The error comes, and the test is content. What the call did before it noticed is not looked at."
CONCEPT = "Work out the price yourself, and compare all that you can see before and after a refusal."
EDITS = [
    (
        """    assert pool.num_free_blocks == 2, "I4: nobody is taken"
    assert pool.get_cached_block("content") is block, "I4: nobody is evicted"
""",
        "",
    ),
]
