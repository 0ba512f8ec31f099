STORY = (
    "The salt is forgotten, since all tests of one user pass without it. One tenant can now find out by timing "
    "what another tenant has asked."
)
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    ("request.cache_salt", "None"),
]
