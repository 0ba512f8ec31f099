STORY = "Only one request is loaded in a step: the second that is admitted gets slots, and nothing to fill them."
CONCEPT = (
    "After any steps, failed ones too, everybody reads its own tokens, and main memory has who waits and nobody else."
)
EDITS = [
    (
        "        if request_id in self._num_tokens:\n            self._loading[request_id]",
        "        if request_id in self._num_tokens and len(self._loading) < 2:\n            self._loading[request_id]",
    )
]
