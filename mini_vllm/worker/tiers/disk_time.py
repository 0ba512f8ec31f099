"""How long a disk takes to read blocks as the tiers read them: what a calibration of the simulator
says of it.
"""

import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.offload.tiers.work import Name
from mini_vllm.worker.tiers.block_folder import DIGEST_SIZE, BlockFolder
from mini_vllm.worker.tiers.executor import NUM_READERS

LARGER = 4  # times a block: two sizes tell what each read takes from what each byte takes


class DiskTime(NamedTuple):
    """A block of n bytes takes latency + n / bandwidth seconds, with as many reads at once as the
    io threads make.
    """

    bandwidth: float  # bytes a second
    latency: float  # seconds


def measure_disk(
    directory: str, block_bytes: int, num_blocks: int = 16, repeats: int = 3
) -> DiskTime:
    """Write blocks into a new folder in the directory, read them, and remove it. The pages that the
    system keeps of them are given up before each read, where it can be told to.

    Raises InvalidParameterError for a directory that cannot be written.
    """
    try:
        with TemporaryDirectory(prefix="calibration-", dir=directory) as place:
            sizes = block_bytes, LARGER * block_bytes
            small, large = (seconds_per_read(place, size, num_blocks, repeats) for size in sizes)
    except OSError as error:
        raise InvalidParameterError(
            f"disk must be a folder that can be written, got {shown(directory)}: {error.strerror}"
        ) from error
    if large <= small:  # a read takes what it takes, and its bytes nothing that could be seen
        return DiskTime(LARGER * block_bytes / large, 0.0)
    bandwidth = (LARGER - 1) * block_bytes / (large - small)
    return DiskTime(bandwidth, max(small - block_bytes / bandwidth, 0.0))


def seconds_per_read(directory: str, block_bytes: int, num_blocks: int, repeats: int) -> float:
    """The median over the repeats."""
    names = [os.urandom(DIGEST_SIZE) for _ in range(num_blocks)]
    blocks = [memoryview(bytearray(os.urandom(block_bytes))) for _ in names]
    folder = BlockFolder(directory, {"block_bytes": block_bytes})
    try:
        for name, block in zip(names, blocks, strict=True):
            if not folder.write(name, block):
                raise OSError(0, "a block could not be written")
        times = []
        for _ in range(repeats):
            forget_pages(folder, names)
            start = time.perf_counter()
            with ThreadPoolExecutor(NUM_READERS) as readers:
                well = all(readers.map(folder.read, names, blocks))
            times.append((time.perf_counter() - start) / num_blocks)
            if not well:
                raise OSError(0, "a block could not be read")
    finally:
        folder.close()
    return statistics.median(times)


def forget_pages(folder: BlockFolder, names: Sequence[Name]) -> None:
    """Let the next read come from the disk."""
    if not hasattr(os, "posix_fadvise"):
        return
    for name in names:
        with open(folder.path / name.hex(), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
