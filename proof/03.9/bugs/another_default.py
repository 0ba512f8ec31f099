STORY = "The number that a window has if nobody says it is another one than the signature promises."
CONCEPT = "A meter that is made without a number has a window of 1000 requests."
EDITS = [("max_recent_requests: int = 1000", "max_recent_requests: int = 100")]
