STORY = (
    "`salt or None` turns an empty string into no salt at all. Two tenants, one of whom was given an empty "
    "salt, share their blocks."
)
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    ("request.cache_salt", "request.cache_salt or None"),
]
