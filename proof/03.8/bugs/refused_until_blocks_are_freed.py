STORY = "A refused head is not asked again while as many blocks are free as when it was refused. But what others compute meanwhile may become a hit of it."
CONCEPT = "A refused head is asked again in every step: what the others compute may be a hit of it, and then it fits."
EDITS = [
    (
        "            computed_blocks, num_computed = kv.get_computed_blocks(request)\n",
        "            if vars(self).get('refused') == (request, kv.num_free_blocks):\n                break\n            computed_blocks, num_computed = kv.get_computed_blocks(request)\n",
    ),
    (
        "            if kv.allocate_slots(request, n, computed_blocks) is None:\n                break\n",
        "            if kv.allocate_slots(request, n, computed_blocks) is None:\n                break\n            self.refused = None\n",
    ),
    (
        "            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n",
        "            if not self._may_admit(request, num_computed + n, computed_blocks):\n                self.refused = (request, kv.num_free_blocks)\n                break\n",
    ),
]
