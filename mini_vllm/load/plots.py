"""The picture of a run under load, and what all pictures need. matplotlib is imported only when one
is drawn.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm.errors import MiniVllmError, how_to_install
from mini_vllm.load.metrics import Record, counts_over_time
from mini_vllm.observe.files import printable, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS_MATPLOTLIB = f"the plots need matplotlib, which is not installed.\n{how_to_install('plots')}"


class PlotsUnavailableError(MiniVllmError):
    """Plots are asked for, but matplotlib is not installed."""


def check_matplotlib() -> None:
    """Raise PlotsUnavailableError now rather than after the runs."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotsUnavailableError(NEEDS_MATPLOTLIB) from error


def new_figure(num_axes: int, title: str) -> tuple["Figure", list["Axes"]]:
    """A figure with that many axes side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * num_axes, 4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize="medium")
    return figure, list(figure.subplots(1, num_axes))


def save(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG."""
    picture = BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_file(path, picture.getvalue())


def plot_run(path: Path, records: Sequence[Record], result: Mapping[str, Any]) -> None:
    """Three pictures in one file: how latencies are distributed, TTFT over time, and what is in
    flight.
    """
    done = [record for record in records if record.error is None]
    title = (
        f"{printable(result['model_id'])}, {len(done)} of {len(records)} requests, "
        f"{result['duration']:.1f} s"
    )
    figure, (distribution, over_time, in_flight) = new_figure(3, title)
    shares = [100 * (rank + 1) / len(done) for rank in range(len(done))]
    for name, values in (("TTFT", [r.ttft for r in done]), ("E2EL", [r.e2el for r in done])):
        distribution.plot(
            [1000 * value for value in sorted(values)], shares, drawstyle="steps-post", label=name
        )
    distribution.set(
        title="requests within a latency",
        xlabel="latency, ms",
        ylabel="%",
        xscale="log",
        ylim=(0, 101),
    )
    distribution.legend()
    over_time.plot([r.due for r in done], [1000 * r.ttft for r in done], ".", label="TTFT")
    failed = [record.due for record in records if record.error is not None]
    if failed:
        over_time.plot(failed, [0] * len(failed), "x", color="red", label="failed")
    over_time.set(title="TTFT over time", xlabel="due, s", ylabel="ms", ylim=(0, None))
    over_time.legend()
    counts = counts_over_time((record.due, record.token_times[-1]) for record in done)
    in_flight.plot(*zip(*counts, strict=True), drawstyle="steps-post", linewidth=0.8)
    in_flight.set(title="due and not done", xlabel="time, s", ylabel="requests", ylim=(0, None))
    save(figure, path)
