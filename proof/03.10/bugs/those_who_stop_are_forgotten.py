STORY = "A learner forgets whoever ended by itself, with stop or length. Who was aborted, or had an error, keeps its CPU blocks."
CONCEPT = (
    "After any steps, failed ones too, each request reads its own tokens, and main memory has the waiting ones only."
)
EDITS = [
    (
        "        if request.is_finished:\n            self.connector.request_finished(request)\n",
        '        if request.is_finished and request.finish_reason != "error":\n            self.connector.request_finished(request)\n        elif request.is_finished:\n            pass\n',
    )
]
