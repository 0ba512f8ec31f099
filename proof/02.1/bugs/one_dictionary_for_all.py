STORY = (
    "The dictionary stands in the class, not in the object, and each new queue clears it. A second pool "
    "empties the first one."
)
CONCEPT = "Two queues know nothing of each other."
BASE = "ordered_dict"
EDITS = [
    ("class FreeKVCacheBlockQueue:\n", "class FreeKVCacheBlockQueue:\n    _order: OrderedDict = OrderedDict()\n\n"),
    ("        self._order = OrderedDict()\n", "        self._order.clear()\n"),
]
