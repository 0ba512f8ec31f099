"""The lab's own rules and nothing more: the threshold is of 03.6."""

EDITS = [
    (
        """
        threshold = self.long_prefill_token_threshold
        if threshold and len(self._requests) > 1:  # a lone request need not make room for others
            num_new_tokens = min(num_new_tokens, threshold)
""",
        "\n",
    )
]
