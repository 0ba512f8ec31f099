STORY = (
    "With prefix caching off the lookup goes on as before. Who turned it off, for a measurement or for safety, "
    "measures or shares what was there."
)
CONCEPT = "With prefix caching off nothing is found."
EDITS = [
    (
        """        if self.enable_prefix_caching:
""",
        """        if True:
""",
    ),
]
