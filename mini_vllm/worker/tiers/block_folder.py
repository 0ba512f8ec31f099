"""BlockFolder: files of blocks, each under the name of its content.

What is read is right or refused: a block that is torn, spoilt, or of other bytes than its name and
its checksum say is a miss. It is written to a temporary name, flushed to the disk and renamed, so a
file under its own name is whole even if the machine stops at any moment. vLLM's tier renames, too,
but keeps no checksum and flushes nothing. Source: vllm/v1/kv_offload/tiering/fs/io.py.

The K and V of equal tokens differ from model to model, and from one way to compute them to another.
So each layout has a folder of its own in the directory, and one process at a time uses a folder.
What is in it tells of prompts, so only its owner may read it.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.offload.tiers.work import Name

DIGEST_SIZE = 32  # bytes, of a name and of a checksum
FORMAT = 1  # of a file: the checksum, then the block
UNFINISHED = ".part"


class BlockFolder:
    """The folder of one layout in a directory. Its lock is held until close().

    Raises InvalidParameterError if the directory cannot be used, or another process has the folder.
    """

    def __init__(self, directory: str, layout: Mapping[str, Any]) -> None:
        described = json.dumps({"format": FORMAT, **layout}, sort_keys=True, indent=1)
        key = sha256(described.encode()).hexdigest()[:16]
        self.path = Path(directory).expanduser() / key
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            self._lock = open(self.path / "lock", "a")  # noqa: SIM115  # until close()
            (self.path / "layout.json").write_text(described)
        except OSError as error:
            raise InvalidParameterError(
                f"kv_offload_path must be a folder that can be written, got {shown(directory)}: "
                f"{error.strerror}"
            ) from error
        for _ in range(20):  # the lock of an engine that was killed goes a moment after it
            with suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        else:
            self._lock.close()
            raise InvalidParameterError(
                f"kv_offload_path {shown(directory)} is in use by another engine with this model"
            )
        for left in self.path.glob(f"*{UNFINISHED}"):
            left.unlink(missing_ok=True)

    def names(self) -> list[Name]:
        """What is there, the least recently used first."""
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(ValueError):  # no name of a block
                    name = bytes.fromhex(entry.name)
                    if len(name) == DIGEST_SIZE:
                        found.append((entry.stat().st_mtime_ns, name))
        return [name for _, name in sorted(found)]

    def write(self, name: Name, block: memoryview, evicted: Sequence[Name] = ()) -> bool:
        """Keep a block, and remove files to make room for it; returns whether it is there now.

        A disk that is full, or refuses, is no reason to stop.
        """
        path, unfinished = self._path(name), self.path / (name.hex() + UNFINISHED)
        for each in evicted:
            self.delete(each)
        try:
            with open(unfinished, "wb") as file:
                file.write(checksum(name, block))
                file.write(block)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            return False
        return True

    def read(self, name: Name, block: memoryview) -> bool:
        """Fill the block; returns whether it has what was written under this name.

        If not, the block holds anything, and the file is gone.
        """
        path = self._path(name)
        with suppress(OSError):
            with open(path, "rb") as file:
                expected = file.read(DIGEST_SIZE)
                is_whole = file.readinto(block) == len(block) and not file.read(1)
            if is_whole and checksum(name, block) == expected:
                os.utime(path)
                return True
            self.delete(name)
        return False

    def delete(self, name: Name) -> bool:
        with suppress(OSError):
            self._path(name).unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Another process may have the folder."""
        self._lock.close()

    def _path(self, name: Name) -> Path:
        return self.path / name.hex()


def checksum(name: Name, block: memoryview) -> bytes:
    """Of the name, too: a block under the name of another one is spoilt."""
    return blake2b(block, digest_size=DIGEST_SIZE, key=name).digest()
