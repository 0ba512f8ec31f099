STORY = "The head is looked up once and the answer kept for as long as it is deferred. Blocks that were found may be somebody else's by then, and more may have been found."
CONCEPT = "A refused head is asked again in every step: what the others compute may be a hit of it, and then it fits."
EDITS = [
    (
        "            computed_blocks, num_computed = kv.get_computed_blocks(request)\n",
        "            found = vars(self).setdefault('found', {})\n            if request not in found:\n                found[request] = kv.get_computed_blocks(request)\n            computed_blocks, num_computed = found[request]\n",
    ),
    (
        "            self._admit(request, num_computed)\n",
        "            self._admit(request, num_computed)\n            del found[request]\n",
    ),
]
