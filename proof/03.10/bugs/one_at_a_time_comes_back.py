STORY = "Only one request is loaded in a step: the second that is admitted gets slots, and nothing to fill them."
CONCEPT = (
    "After any steps, failed ones too, each request reads its own tokens, and main memory has the waiting ones only."
)
EDITS = [
    (
        "        if request_id in self._num_tokens:\n            self._loading[request_id]",
        "        if request_id in self._num_tokens and len(self._loading) < 2:\n            self._loading[request_id]",
    )
]
