STORY = (
    "A learner remembers the price of a request by its id and length. While it waits, the blocks of its "
    "hit are held and let go, and the price is another one."
)
CONCEPT = "A price holds for the moment: the same question has another answer when a hit is held or let go."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            'prices = self.__dict__.setdefault("_prices", {})\n'
            "        price = prices.setdefault(\n"
            "            (request.request_id, num_tokens), kv.num_blocks_needed(request, num_tokens, computed_blocks)\n"
            "        )\n"
            "        return price + num_spare <= kv.num_free_blocks"
        ),
    ),
]
