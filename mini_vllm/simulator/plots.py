"""The pictures of simulated runs, as PNG files. matplotlib is imported only when one is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mini_vllm.load.plots import new_figure, save
from mini_vllm.simulator.metrics import TimelinePoint


def plot_load(
    path: Path, sweeps: Mapping[str, Mapping[float, Mapping[str, Any]]], title: str
) -> None:
    """Latency and goodput against load. sweeps: for each policy the reports by share of the
    rate.
    """
    figure, axes = new_figure(3, title)
    for (name, unit), ax in zip(
        (("p99 TTFT", "s"), ("p99 ITL", "s"), ("goodput", "requests/s")), axes, strict=True
    ):
        for policy, points in sweeps.items():
            values = [
                report["goodput"] if name == "goodput" else report[name.split()[1].lower()]["p99"]
                for report in points.values()
            ]
            ax.plot(list(points), values, marker="o", label=policy)
        ax.set(
            title=name, xlabel="load, as a share of the rate asked for", ylabel=unit, ylim=(0, None)
        )
    axes[0].legend()
    save(figure, path)


def plot_timelines(
    path: Path, timelines: Mapping[str, Sequence[TimelinePoint]], title: str
) -> None:
    """Running and waiting requests and the use of the KV cache over time, of the first replica."""
    figure, axes = new_figure(3, title)
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
    save(figure, path)
