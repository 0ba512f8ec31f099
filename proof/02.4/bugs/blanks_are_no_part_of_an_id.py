STORY = "The price is looked up under the id without its blanks, in the table of another request."
CONCEPT = "Ids are told apart letter by letter: what is of one request is not of another."
EDITS = [
    (
        "        table = self._tables.get(request.request_id, ())\n        num_needed",
        "        table = self._tables.get(request.request_id.strip(), ())\n        num_needed",
    )
]
