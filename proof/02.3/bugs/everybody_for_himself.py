STORY = (
    "The request's id goes into the first name, which makes every name unique. Names are then equal to "
    "nothing: the cache fills up, and no request ever finds another one's blocks."
)
CONCEPT = "Equal prefixes have equal names, whichever request asks."
EDITS = [
    ("request.cache_salt", "request.request_id"),
]
