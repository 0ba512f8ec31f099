STORY = (
    "The list is emptied when slots are given again, not when it is handed out. Who asks twice copies "
    "twice, and the list he keeps loses its content."
)
CONCEPT = "A copy is told once, for the coming step: a list that was handed out does not change."
EDITS = [
    (
        ("        copies, self._copies = self._copies, []\n        return copies\n"),
        ("        self._was_told = True\n        return self._copies\n"),
    ),
    (
        ("        shared = self._shared_blocks(request, num_tokens)\n"),
        (
            '        if self.__dict__.pop("_was_told", False):\n'
            "            self._copies.clear()\n"
            "        shared = self._shared_blocks(request, num_tokens)\n"
        ),
    ),
]
