"""What `lab run` shows beside answers, without an engine; in one it is tested with the mixes of parts."""

import re
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from labkit.cli import payoff, running
from labkit.kernels import in_c
from labkit.labs.catalog import find_lab
from labkit.labs.graft import Part
from mini_vllm.native.c_compiler import find_compiler


def screen() -> tuple[Console, StringIO]:
    written = StringIO()
    return Console(file=written, width=100, highlight=False, soft_wrap=True), written


def test_a_mask_is_read_bit_by_bit() -> None:
    assert payoff.allowed_by(bytes([0b101, 0, 0b1000_0000])) == [0, 2, 23]


def test_drafts_are_drawn_accepted_and_rejected() -> None:
    out, written = screen()
    steps = [
        {"sampled": {"again": [1]}},
        {"sampled": {"again": [2, 3]}, "spec": {"again": [2, 9]}},
        {"sampled": {"again": [4, 5, 6]}, "spec": {"again": [4, 5]}},  # the request ends at 5
        {"sampled": {"first": [7]}},
    ]
    trace = {"steps": steps, "outputs": {"first": [7], "again": [1, 2, 3, 4, 5], "repeats": []}}
    payoff.draw_drafts(out, trace, lambda token_id: b"%d." % token_id)
    assert "again    ▪ ●○▪ ●●▪\n         1.[2.]~9.~3.[4.5.]\n" in written.getvalue()
    assert "first    ▪\n         7.\n" in written.getvalue()


def test_a_stream_shows_what_is_emitted_and_what_is_held() -> None:
    """A run of pieces that bring nothing is cut short; a call ends what is held."""
    answers = iter([("", ()), ("a<", ()), *[("", ())] * 9, ("", [{"function": {"name": "f"}}]), ("", ())])

    def feed(piece: str = "") -> SimpleNamespace:
        content, calls = next(answers)
        return SimpleNamespace(content=content, tool_calls=calls)

    out, written = screen()
    parser = SimpleNamespace(feed=feed, finish=feed)
    payoff.draw_stream(out, ["a", "<b", *"123456789", ">", "", None], parser)
    rows = [re.split(r"  +", line.rstrip()) for line in written.getvalue().splitlines()]
    assert rows[1:3] == [["'a'", "-", "'a'"], ["'<b'", "'a<'", "'b'"]]
    assert rows[6:9] == [["'4'", "-", "'b1234'"], ["...", "-", "..."], ["'>'", '{"name": "f"}']]
    assert rows[9][:2] == ["(the end)", "-"]


@pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
def test_a_kernel_is_timed_beside_the_reference_and_the_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slower kernel has a larger figure. The learner's is run only if it is done, and its text decides."""
    lab, asked = find_lab("01.9"), []

    def measure(source: str) -> in_c.Measured:
        asked.append(source)
        return in_c.Measured(0.5 if source == "mine" else 0.25 if source == in_c.READER else 1.0, 10**9)

    monkeypatch.setattr(in_c, "measure", measure)
    monkeypatch.setattr(running, "load_done", lambda *_: "since they are not done")
    running.show_kernel(lab)
    assert "01.9 is not yours yet, since it is not done." in (said := capsys.readouterr().out)
    assert "yours  " not in said
    part = Part(lab, lab.folder / "mine.py", 'def decode_source() -> str:\n    return "mine"\n')
    monkeypatch.setattr(running, "load_done", lambda *_: part)
    running.show_kernel(lab)
    rows = {cells[0]: cells[1:] for line in capsys.readouterr().out.splitlines() if (cells := re.split(r"  +", line))}
    assert rows["yours"] == ["500.0", "2.0"]
    assert rows["the reference"] == ["1000.0", "1.0"]
    assert rows["only to read the same bytes"] == ["250.0", "4.0"]
    assert asked.count("mine") == 1


@pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
def test_a_measured_kernel_has_read_all_keys_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes that are told are those of the arrays, for the reader of the memory's floor, too."""
    orders = []
    monkeypatch.setattr(in_c, "order", lambda *order, **_: orders.append(order) or ({"seconds": 1.0}, b""))
    assert in_c.measure("text").num_bytes == 134_217_728
    [(_, sizes, contents, _)] = orders
    numbers = sizes["num_seqs"] * sizes["max_blocks"] * sizes["num_kv_heads"] * sizes["block_size"] * sizes["head_dim"]
    assert len(contents["key_cache"]) == len(contents["value_cache"]) == 4 * numbers
    assert len(contents["query"]) == len(contents["output"])
    assert len(contents["query"]) == 4 * sizes["num_seqs"] * sizes["num_heads"] * sizes["head_dim"]
    assert sizes["num_seqs"] * sizes["max_blocks"] * 4 == len(contents["block_tables"])


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
def test_the_reference_is_measured() -> None:
    assert in_c.measure(in_c.decode_source(), num_rounds=1).seconds > 0
    assert in_c.measure(in_c.READER, num_rounds=1).seconds > 0
