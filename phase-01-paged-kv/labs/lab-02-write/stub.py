"""Lab 01.2: Writing keys and values (15 minutes). What must hold is in contract.md."""

from torch import Tensor

from labkit import todo
from mini_vllm.attention.metadata import AttentionMetadata
from mini_vllm.attention.reference import ReferenceBackend as ReferenceReferenceBackend


class ReferenceBackend(ReferenceReferenceBackend):
    """What is not defined here is the reference's."""

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """Store row t of key and value in slot slot_mapping[t].

        The slot -1 is padding: that row is stored nowhere.
        """
        todo("01.2")
