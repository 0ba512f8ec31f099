STORY = (
    "Rows are brought to their slots by a matrix of zeros and ones. 0 times the NaN of a padded row is NaN, in "
    "every slot."
)
CONCEPT = "Nothing is computed with what is elsewhere: other slots and rows of padding may hold NaN."
EDITS = [
    (
        "from torch import Tensor",
        """import torch
from torch import Tensor""",
    ),
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        owned = metadata.slot_mapping >= 0
        chosen = torch.zeros(len(key), len(key), dtype=key.dtype)
        chosen[owned, owned.nonzero()[:, 0]] = 1
        value = (chosen @ value.flatten(1)).view(value.shape)
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
]
