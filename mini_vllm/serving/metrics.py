"""What GET /metrics tells, under vLLM's names, so that dashboards for vLLM show this server, too.

A request is counted once, whatever its n, when its last token was read or when it was aborted.
Gauges are those of the last word of the engine, which speaks after each step and after each abort:
0 when it is idle. Source: vllm/v1/metrics/loggers.py (PrometheusStatLogger),
vllm/v1/metrics/stats.py, vllm/v1/spec_decode/metrics.py.
"""

from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from mini_vllm.observe.step_plan import BUCKETS
from mini_vllm.request import Request
from mini_vllm.serving.counted.metrics import CountedMetrics
from mini_vllm.serving.messages import StepDone
from mini_vllm.spec_decode.scheduler import SpeculationStats
from mini_vllm.step import TokenDelta

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
HISTOGRAMS = {
    "time_to_first_token_seconds": "From the arrival of a request to its first token.",
    "inter_token_latency_seconds": "Between two steps that gave a choice tokens.",
    "e2e_request_latency_seconds": "From the arrival of a request to its last token.",
    "request_queue_time_seconds": "From the arrival of a request to its first step.",
    "request_prefill_time_seconds": "From the first step of a request to its first token.",
    "request_decode_time_seconds": "From the first token of a request to its last.",
    "request_inference_time_seconds": "From the first step of a request to its last token.",
    "request_time_per_output_token_seconds": "Decode time by the tokens after the first.",
}
SIZES = [step * 10**power for power in range(6) for step in (1, 2, 5)]
COUNTS = {
    "request_prompt_tokens": "Tokens of the prompt of a request.",
    "request_generation_tokens": "Tokens of all choices of a request.",
    "request_max_num_generation_tokens": "Tokens of the longest choice of a request.",
    "request_prefill_kv_computed_tokens": "Tokens of its prompt that were in no cache.",
    "request_params_n": "Choices that a request asks for.",
    "request_params_max_tokens": "Tokens that a choice may have.",
    "iteration_tokens_total": "Tokens of a step.",
}
COUNTERS = {
    "prompt_tokens": "Tokens of prompts, of requests with a token.",
    "prompt_tokens_cached": "Those that were in the prefix cache.",
    "generation_tokens": "Tokens that were generated.",
    "num_preemptions": "Requests that gave their blocks back.",
    "prefix_cache_queries": "Tokens that were looked up in the prefix cache.",
    "prefix_cache_hits": "Tokens that were found there.",
}
GAUGES = {
    "num_requests_running": "Requests that hold blocks.",
    "num_requests_waiting": "Requests that wait for blocks or a place.",
    "kv_cache_usage_perc": "The share of the KV cache that is held, from 0 to 1.",
}
# By name: the kind, the text, the label beside the model's, and its values.
LABELLED: dict[str, tuple[Any, str, str, tuple[str, ...]]] = {
    "mini_vllm:step_tokens": (
        Counter,
        "Tokens of steps: of prompts, next ones, and what preempted requests had lost.",
        "bucket",
        BUCKETS,
    ),
    "vllm:request_success": (
        Counter,
        "Requests that have ended.",
        "finished_reason",
        ("stop", "length", "abort", "error"),
    ),
    "vllm:prompt_tokens_by_source": (
        Counter,
        "Tokens of prompts, by where their keys and values came from.",
        "source",
        ("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    "vllm:prompt_tokens_cached_by_source": (
        Counter,
        "Tokens of prompts that were in a cache, by its memory.",
        "source",
        ("device",),
    ),
    "vllm:num_requests_waiting_by_reason": (
        Gauge,
        "Requests that wait for blocks or a place, or for something else.",
        "reason",
        ("capacity", "deferred"),
    ),
    "vllm:engine_sleep_state": (
        Gauge,
        "1 for the state of the engine, which does not sleep.",
        "sleep_state",
        ("awake", "weights_offloaded", "discard_all"),
    ),
}
TENANT_GAUGES = ("requests_waiting", "blocks_held", "blocks_cached")  # as StepDone.tenants has them


@dataclass(slots=True)
class Flight:
    """A request on its way. Times in seconds of the engine's clock."""

    num_prompt_tokens: int
    arrival_time: float
    scheduled_time: float | None = None
    first_token_time: float | None = None
    last_token_time: float | None = None
    num_cached_tokens: int = 0  # of the prompt
    num_tokens: Tally[str] = field(default_factory=Tally)  # by choice
    last_times: dict[str, float] = field(default_factory=dict)  # by choice: of its last token


class ServerMetrics:
    """The figures of one server.

    Its event loop calls it. speculation: nothing yet, or None without drafts.
    """

    def __init__(self, model_name: str, speculation: SpeculationStats | None = None) -> None:
        self._registry = registry = CollectorRegistry()
        self._model_name = model_name
        ProcessCollector(registry=registry)
        names = ("model_name",)

        def make(kind: Any, texts: dict[str, str], **options: Any) -> dict[str, Any]:
            return {
                name: kind(f"vllm:{name}", text, names, registry=registry, **options).labels(
                    model_name
                )
                for name, text in texts.items()
            }

        self._histograms = make(Histogram, HISTOGRAMS, buckets=SECONDS)
        self._histograms |= make(Histogram, COUNTS, buckets=SIZES)
        self._counters, self._gauges = make(Counter, COUNTERS), make(Gauge, GAUGES)
        self._tenant_gauges = [
            Gauge(
                f"mini_vllm:tenant_{name}",
                f"{name} of each tenant.",
                (*names, "tenant"),
                registry=registry,
            )
            for name in TENANT_GAUGES
        ]
        text = "Since the engine spoke, as it does after each step and, when asked, each second."
        self.silence = Gauge(
            "mini_vllm:engine_silence_seconds", text, names, registry=registry
        ).labels(model_name)
        self._labelled: dict[str, dict[str, Any]] = {}  # by name and value
        for name, (kind, text, label, values) in LABELLED.items():
            metric = kind(name, text, (*names, label), registry=registry)
            self._labelled[name] = {value: metric.labels(model_name, value) for value in values}
        self._labelled["vllm:engine_sleep_state"]["awake"].set(1)
        self._answers = Counter(
            "http_requests",
            "Answers by path and class of status.",
            ("handler", "status"),
            registry=registry,
        )
        self._durations = Histogram(
            "http_request_duration_seconds",
            "From a request to the end of its answer.",
            ["handler"],
            registry=registry,
        )
        self._counted = CountedMetrics(registry, model_name, speculation)
        self._flights: dict[str, Flight] = {}

    def configured(self, **facts: object) -> None:
        """The model is loaded. facts: of its KV cache; they are labels of a figure that is 1."""
        labels = {"model_name": self._model_name, **{name: str(facts[name]) for name in facts}}
        text = "How the KV cache was made."
        Gauge("vllm:cache_config_info", text, [*labels], registry=self._registry).labels(
            **labels
        ).set(1)

    def answered(self, handler: str, status: int, seconds: float) -> None:
        """An HTTP request was answered. handler: its path, if that is one of the server's."""
        self._answers.labels(handler, f"{status // 100}xx").inc()
        self._durations.labels(handler).observe(seconds)

    def started(self, requests: list[Request], name: str) -> None:
        """A request was sent to the engine, with these choices."""
        first = requests[0]
        self._flights[name] = Flight(len(first.prompt_token_ids), first.arrival_time)
        params = first.sampling_params
        self._histograms["request_params_n"].observe(len(requests))
        self._histograms["request_params_max_tokens"].observe(params.max_tokens)

    def stepped(self, done: StepDone) -> None:
        """The engine has spoken."""
        self._gauges["num_requests_running"].set(done.num_running)
        self._gauges["num_requests_waiting"].set(done.num_waiting)
        self._labelled["vllm:num_requests_waiting_by_reason"]["capacity"].set(done.num_waiting)
        self._gauges["kv_cache_usage_perc"].set(done.kv_cache_usage)
        self._counted.take(done)
        for i, gauge in enumerate(self._tenant_gauges):
            gauge.clear()
            for tenant, usage in done.tenants.items():
                gauge.labels(self._model_name, tenant).set(usage[i])
        if done.stats is not None:
            self._counters["num_preemptions"].inc(done.stats.num_preempted_reqs)
            self._counters["prefix_cache_queries"].inc(done.stats.prefix_cache_queries)
            self._counters["prefix_cache_hits"].inc(done.stats.prefix_cache_hits)
            self._histograms["iteration_tokens_total"].observe(done.stats.num_scheduled_tokens)
        if done.plan is not None:
            for bucket, num_tokens in done.plan.num_tokens.items():
                self._labelled["mini_vllm:step_tokens"][bucket].inc(num_tokens)

    def took(self, request_id: str | None, delta: TokenDelta) -> None:
        """A choice of a request has got something. The delta has its time."""
        flight = self._flights.get(request_id or "")
        if flight is None or not delta.tokens:
            return
        assert delta.time is not None, delta
        self._counters["generation_tokens"].inc(len(delta.tokens))
        flight.num_tokens[delta.request_id] += len(delta.tokens)
        if flight.scheduled_time is None:
            flight.scheduled_time = delta.scheduled_time
        if flight.first_token_time is None:
            flight.first_token_time = delta.time
            flight.num_cached_tokens = num_cached = delta.num_cached_tokens
            self._counters["prompt_tokens"].inc(flight.num_prompt_tokens)
            self._counters["prompt_tokens_cached"].inc(num_cached)
            sources = self._labelled["vllm:prompt_tokens_by_source"]
            sources["local_compute"].inc(flight.num_prompt_tokens - num_cached)
            sources["local_cache_hit"].inc(num_cached)
            self._labelled["vllm:prompt_tokens_cached_by_source"]["device"].inc(num_cached)
            self._histograms["time_to_first_token_seconds"].observe(
                delta.time - flight.arrival_time
            )
        before = flight.last_times.get(delta.request_id)
        if before is not None:
            self._histograms["inter_token_latency_seconds"].observe(delta.time - before)
        flight.last_times[delta.request_id] = flight.last_token_time = delta.time

    def ended(self, request_id: str, reason: str) -> None:
        """A request is over. It may be said several times, and the first counts."""
        flight = self._flights.pop(request_id, None)
        if flight is None:
            return
        self._labelled["vllm:request_success"][reason].inc()
        first, last = flight.first_token_time, flight.last_token_time
        if first is None or last is None:
            return
        scheduled = first if flight.scheduled_time is None else flight.scheduled_time
        longest = max(flight.num_tokens.values())
        for name, figure in (
            ("e2e_request_latency_seconds", last - flight.arrival_time),
            ("request_queue_time_seconds", scheduled - flight.arrival_time),
            ("request_prefill_time_seconds", first - scheduled),
            ("request_decode_time_seconds", last - first),
            ("request_inference_time_seconds", last - scheduled),
            ("request_time_per_output_token_seconds", (last - first) / max(longest - 1, 1)),
            ("request_prompt_tokens", flight.num_prompt_tokens),
            (
                "request_prefill_kv_computed_tokens",
                flight.num_prompt_tokens - flight.num_cached_tokens,
            ),
            ("request_generation_tokens", flight.num_tokens.total()),
            ("request_max_num_generation_tokens", longest),
        ):
            self._histograms[name].observe(max(figure, 0.0))

    def render(self) -> bytes:
        """All figures, in Prometheus' text format."""
        return generate_latest(self._registry)
