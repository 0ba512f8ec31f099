STORY = "free() takes an id as a person reads it: capital letters and small ones are the same."
CONCEPT = "Ids are told apart letter by letter: what is of one request is not of another."
EDITS = [
    (
        "        table = self._tables.pop(request.request_id, [])",
        "        name = request.request_id.casefold()\n        table = next((self._tables.pop(each) for each in list(self._tables) if each.casefold() == name), [])",
    )
]
