STORY = (
    "The rows are read as if they were contiguous, as a kernel without strides does. Every second row is a value "
    "where a key should be."
)
CONCEPT = "Key and value are views into the wider matrix of a projection: their rows need not be neighbours."
EDITS = [
    (
        "key_cache[block_id, offset] = key[token]",
        "key_cache[block_id, offset] = torch.as_strided(key, key.shape, (key[0].numel(), key.shape[2], 1))[token]",
    ),
    (
        "from torch import Tensor",
        """import torch
from torch import Tensor""",
    ),
]
