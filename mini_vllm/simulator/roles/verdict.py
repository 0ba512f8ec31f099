"""Which of two fleets wins, by each latency apart: one may be better in TTFT and worse in ITL."""

from collections.abc import Iterator, Mapping
from typing import Any

LATENCIES = [(name, p) for name in ("ttft", "itl") for p in ("p50", "p99")]
LEAST_GAIN = 0.02  # a quantile is exact to 0.5 %, and a difference below this is none


def ratios(together: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, float]:
    """Latencies of the fleet with roles, divided by those of the other one.

    together, apart: reports. A latency that one of them lacks is left out.
    """
    found = {}
    for name, percentile in LATENCIES:
        before, after = together[name][percentile], apart[name][percentile]
        if before and after is not None:
            found[f"{name.upper()} {percentile}"] = after / before
    return found


def verdict(together: Mapping[str, Any], apart: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for TTFT and one for ITL."""
    found = ratios(together, apart)
    for name in ("TTFT", "ITL"):
        of_name = {key: value for key, value in found.items() if key.startswith(name)}
        if not of_name:
            continue
        wins = [value < 1 - LEAST_GAIN for value in of_name.values()]
        loses = [value > 1 + LEAST_GAIN for value in of_name.values()]
        word = "wins" if any(wins) and not any(loses) else "loses" if not any(wins) else "is mixed"
        word = word if any(wins) or any(loses) else "changes nothing"
        figures = ", ".join(f"{key} {value:.2f} times" for key, value in of_name.items())
        yield f"{name}: to take the roles apart {word} ({figures})"
