"""Lab 07.2: A graph is a recording (25 minutes). What must hold is in contract.md."""

from collections.abc import Callable, Sequence

from labkit import todo
from labkit.steps.recording import Buffers, Kernel, Launch, MovedBufferError, NotRecordedError, Row


class StepGraph:
    """A forward of `size` rows, for every step of at most so many.

    buffers: at least "input_ids", "positions" and "slot_mapping", each with at least `size` entries. Graphs of other
    sizes share them.
    """

    def __init__(self, size: int, buffers: Buffers) -> None:
        todo("07.2")

    def record(self, forward: Callable[[Launch], None]) -> None:
        """Call forward(launch) once; what it launches is the graph from now on.

        launch(kernel, *names) notes the kernel and the buffers of these names, and runs nothing.
        """
        todo("07.2")

    def can_use(self, num_rows: int) -> bool:
        """Whether a step of so many rows can be replayed."""
        todo("07.2")

    def pad(self, rows: Sequence[Row]) -> None:
        """Write a step into the first `size` entries of the buffers; behind its rows stand dummy rows.

        A dummy row has input id 0, position 0 and slot -1, which no kernel writes. Raises ValueError for more rows than
        `size`; then nothing changes.
        """
        todo("07.2")

    def replay(self) -> None:
        """Run the kernels in their order, on the buffers that they were recorded with.

        Raises NotRecordedError, or MovedBufferError if one of these buffers is another list now; then nothing runs.
        """
        todo("07.2")

    def destroy(self) -> None:
        """Forget what was recorded, so that nothing holds the buffers. The buffers stay."""
        todo("07.2")
