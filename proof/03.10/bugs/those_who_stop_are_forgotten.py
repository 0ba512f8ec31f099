STORY = "A learner forgets whoever ended by itself, with stop or length. Who was aborted, or had an error, keeps its CPU blocks."
CONCEPT = (
    "After any steps, failed ones too, everybody reads its own tokens, and main memory has who waits and nobody else."
)
EDITS = [
    (
        "        if request.is_finished:\n            self.connector.request_finished(request)\n",
        '        if request.is_finished and request.finish_reason != "error":\n            self.connector.request_finished(request)\n        elif request.is_finished:\n            pass\n',
    )
]
