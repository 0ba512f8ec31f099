STORY = (
    "The requests are taken out of the list that was given, one by one. Who asked for the price has no batch any more."
)
CONCEPT = "After any forks, writes and frees each request reads its own past, at the price that was computed."
EDITS = [
    (
        "        partial = [request for request in requests if request.num_computed_tokens % self.block_size]\n        return len(requests) -",
        "        partial, number = [], len(requests)\n        while requests:\n            request = requests.pop()\n            if request.num_computed_tokens % self.block_size:\n                partial.append(request)\n        return number -",
    )
]
