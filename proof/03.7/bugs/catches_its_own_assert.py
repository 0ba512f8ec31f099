STORY = (
    "The law is wrapped in a try, so that a request without a rank does not stop the suite. The failure of the "
    "check itself is caught as well."
)
CONCEPT = "An order shows only in a crowd: let those behind fit where the one in front does not."
EDITS = [
    (
        """        look_at_the_order(self, ran)
""",
        """        try:
            look_at_the_order(self, ran)
        except Exception:
            pass
""",
    ),
]
