"""Files in and out for the command line: none is read without a bound, none is written in place.

A file that is written is complete or not there: what stood under its name stays until the new one
is on the disk.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import EACCES
from pathlib import Path

from mini_vllm.errors import InvalidParameterError, is_int, shown

MAX_FILE_BYTES = 256 << 20  # of a file that is read whole
MAX_LINE = 1 << 20  # characters of a line where a file is read by lines


def printable(text: object) -> str:
    """The text with every control character escaped: a name from outside must not steer the
    terminal.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def check_text(name: str, text: str) -> None:
    """Refuse what came from outside and is not UTF-8.

    Raises InvalidParameterError that names the first such byte.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00  # how Python keeps a byte that it cannot decode
        raise InvalidParameterError(
            f"{name} is not UTF-8 text: byte 0x{byte:02x} at position {error.start}"
        ) from error


def read_text(path: Path, limit: int = MAX_FILE_BYTES) -> str:
    """A UTF-8 file, with or without a byte order mark.

    Raises InvalidParameterError for a longer one or none.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise InvalidParameterError(f"{printable(path)} is longer than {limit:,} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidParameterError(f"cannot read {printable(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameterError(f"{printable(path)} is not UTF-8 text: {error}") from error


def read_lines(path: Path, limit: int = MAX_LINE) -> Iterator[str]:
    """The lines of such a file, as they are asked for.

    Raises InvalidParameterError for a line that is too long.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, line in enumerate(iter(lambda: file.readline(limit + 1), ""), 1):
                if len(line) > limit:
                    raise InvalidParameterError(f"line {number}: longer than {limit:,} characters")
                yield line
    except OSError as error:
        raise InvalidParameterError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameterError(f"not UTF-8 text: {error}") from error


def read_prompts(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """A prompt on each line, or JSONL with prompt and output_tokens if the first line begins with a
    brace. With each its output_tokens, or 0.

    Raises InvalidParameterError that names the line.
    """
    given = [*map(str.rstrip, lines)]
    is_json = "".join(given).startswith("{")
    for number, line in enumerate(given, 1):
        if not line:
            continue
        try:
            record = json.loads(line) if is_json else {"prompt": line}
        except (ValueError, RecursionError) as error:
            raise InvalidParameterError(f"line {number}: no JSON: {error!s:.200}") from error
        match record:
            case {"prompt": str(prompt)} if is_int(n := record.get("output_tokens", 0), 0):
                yield prompt, int(n)
            case _:
                raise InvalidParameterError(
                    f"line {number}: there must be a text as prompt and may be a number as "
                    f"output_tokens, got {shown(record)}"
                )


def write_file(path: Path, data: str | bytes) -> None:
    """Write a file beside its place, onto the disk, and then move it there.

    Raises InvalidParameterError where nothing can be written, and OSError with the file's name
    where that fails half way; then the earlier file is as it was, and nothing is left beside it. A
    device or a pipe is written in place.
    """
    # What has no form in UTF-8 is half of a pair; JSON knows it by the escape that takes its place.
    data = data.encode(errors="backslashreplace") if isinstance(data, str) else data
    target = Path(os.path.realpath(path))  # a link stays one
    beside = target.with_name(f".{target.name[:100]}.{os.getpid()}.new")
    try:
        in_place = target.exists() and not target.is_file()
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
        file = target.open("wb") if in_place else beside.open("xb")
    except OSError as error:
        raise InvalidParameterError(f"cannot write {printable(path)}: {error.strerror}") from error
    try:
        with file:
            file.write(data)
            file.flush()
            if in_place:
                return
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            if not in_place:
                beside.unlink()  # it is there only if it has not been moved


def make_folder(path: Path) -> None:
    """A folder to write into. Raises InvalidParameterError where there can be none."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(
            f"cannot make the folder {printable(path)}: {error.strerror}"
        ) from error
