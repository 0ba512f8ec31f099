"""The pictures of simulated runs, as PNG files. Needs matplotlib, which is imported only here and only when drawing."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm.errors import MiniVllmError, how_to_install
from mini_vllm.observe.files import write_file
from mini_vllm.simulator.metrics import TimelinePoint

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


def plot_load(path: Path, sweeps: Mapping[str, Mapping[float, Mapping[str, Any]]], title: str) -> None:
    """Latency and goodput against load. sweeps: for each policy the reports by share of the rate."""
    figure, axes = _new_figure(3, title)
    for (name, unit), ax in zip((("p99 TTFT", "s"), ("p99 ITL", "s"), ("goodput", "requests/s")), axes, strict=True):
        for policy, points in sweeps.items():
            values = [
                report["goodput"] if name == "goodput" else report[name.split()[1].lower()]["p99"]
                for report in points.values()
            ]
            ax.plot(list(points), values, marker="o", label=policy)
        ax.set(title=name, xlabel="load, as a share of the rate asked for", ylabel=unit, ylim=(0, None))
    axes[0].legend()
    _save(figure, path)


def plot_timelines(path: Path, timelines: Mapping[str, Sequence[TimelinePoint]], title: str) -> None:
    """Running and waiting requests and the use of the KV cache over time, of the first replica."""
    figure, axes = _new_figure(3, title)
    panels = (
        ("running", "requests", "num_running", 1),
        ("waiting", "requests", "num_waiting", 1),
        ("KV cache in use", "%", "kv_cache_usage", 100),
    )
    for (shown, unit, name, factor), ax in zip(panels, axes, strict=True):
        for policy, points in timelines.items():
            values = [factor * getattr(point, name) for point in points]
            ax.plot([point.time for point in points], values, label=policy, linewidth=0.8)
        ax.set(title=shown, xlabel="time, s", ylabel=unit, ylim=(0, None))
    axes[0].legend()
    _save(figure, path)


def _new_figure(num_axes: int, title: str) -> tuple["Figure", list["Axes"]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * num_axes, 4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize="medium")
    return figure, list(figure.subplots(1, num_axes))


def _save(figure: "Figure", path: Path) -> None:
    picture = BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_file(path, picture.getvalue())
