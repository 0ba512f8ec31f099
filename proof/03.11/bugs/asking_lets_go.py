STORY = "Whoever asks for the price already leaves the shared block: the next one who asks is told that there is none."
CONCEPT = "The price counts a block for each copy, and asking for it changes nothing."
EDITS = [
    (
        ("        num_copies = len(self._shared_blocks(request, num_tokens))\n"),
        (
            "        shared = self._shared_blocks(request, num_tokens)\n"
            "        num_copies = len(shared)\n"
            "        for i in shared:\n"
            "            self._tables[request.request_id][i].ref_cnt -= 1\n"
        ),
    ),
]
