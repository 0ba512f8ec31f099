STORY = (
    "A learner asks a refused head again only when something has changed: its length, its hit or the free blocks. The "
    "next request of that id may hit blocks that are held, and needs fewer."
)
CONCEPT = "A refusal is of one request, and not of its name: the next one of that id is asked like any other."
EDITS = [
    (
        "            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n",
        "            asked = request.request_id, request.num_tokens, num_computed, kv.num_free_blocks\n"
        "            if asked == vars(self).get('_refused'):\n"
        "                break\n"
        "            if not self._may_admit(request, num_computed + n, computed_blocks):\n"
        "                self._refused = asked\n"
        "                break\n",
    )
]
