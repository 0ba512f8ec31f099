"""Models whose layers differ in what they see of the past, and in more than that."""
