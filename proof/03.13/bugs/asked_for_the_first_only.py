STORY = "_may_admit is asked for the first newcomer of a step; those behind it come in with it."
CONCEPT = "Admission asks for more than slots: reservation and watermark may refuse, and then no request comes in."
EDITS = [
    (
        "not self._may_admit(request, num_computed + n, computed_blocks)",
        "(request.request_id in self._requests and not any(\n                each not in before for each in self.running\n            ) and not self._may_admit(request, num_computed + n, computed_blocks))",
    ),
    (
        "        kv = self.kv_cache_manager\n        while",
        "        kv, before = self.kv_cache_manager, list(self.running)\n        while",
    ),
]
