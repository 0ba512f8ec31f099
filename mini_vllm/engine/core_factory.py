"""CoreFactory: the model is loaded and the KV cache allocated once; then engine cores are made on
them.

Source: EngineCore.__init__ and _initialize_kv_caches in vllm/v1/engine/core.py.
"""

import logging
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cache, partial
from importlib.util import find_spec

from mini_vllm.config import EngineConfig
from mini_vllm.engine.ahead import core_ahead, one_step_ahead
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.outside import for_others
from mini_vllm.engine.timed_grammar import TimedGrammarGate
from mini_vllm.errors import InvalidParameterError, TokenizerMissingError
from mini_vllm.frontend.input_processor import find_eos_token_ids
from mini_vllm.frontend.tokenizer import reader_of
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.models.checkpoint import (
    load_generation_config,
    load_hf_config,
    load_tokenizer,
    resolve_model,
)
from mini_vllm.offload.hybrid.manager import with_groups
from mini_vllm.offload.remote.gate import attach_gate, wants_tiers
from mini_vllm.offload.tiers.manager import flush, tiered
from mini_vllm.policies.registry import (
    Classes,
    get_classes,
    get_scheduler_cls,
    make_scheduler,
    options_of,
)
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import SchedulerInterface
from mini_vllm.spec_decode.kv_cache import KVCacheManager as LookaheadManager
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler, with_drafts
from mini_vllm.structured.backends import Vocabulary
from mini_vllm.structured.closing.gate import ClosingGate
from mini_vllm.structured.compiler import GrammarCompiler
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.memory import plan_kv_cache
from mini_vllm.worker.preemption_cost import with_preemption_cost

logger = logging.getLogger("mini_vllm")


class EngineClasses(Classes, total=False):
    """Classes that stand in for ours in an engine."""

    executor_cls: type[Executor] | None
    core_cls: type[EngineCore]


class EngineGate(ClosingGate, TimedGrammarGate):
    """Grammars close what asks for it, and the masks of each client are timed."""


class CoreFactory:
    """Owns the executor. Classes: as in LLMEngine.

    Raises a CheckpointError when the model cannot be loaded, InvalidParameterError for a bad
    config.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        scheduler_cls: type[SchedulerInterface] | None = None,
        kv_cache_manager_cls: type[KVCacheManager] | None = None,
        executor_cls: type[Executor] | None = None,
        core_cls: type[EngineCore] = EngineCore,
    ) -> None:
        base = scheduler_cls or get_scheduler_cls(config.scheduler)
        if config.speculative is not None:
            scheduler_cls = base = with_drafts(base)
        config, executor_cls = choose_executor(config, base, executor_cls)
        if config.async_scheduling:
            config.require(
                "async_scheduling",
                config.speculative != "suffix",
                f"False with speculative={config.speculative!r}: the host needs all tokens for it",
            )
            scheduler_cls = one_step_ahead(base)
            core_cls = core_ahead(core_cls, scheduler_cls)
        self.executor = executor = executor_cls(config)
        self.model_info = info = executor.load()
        _, manager_cls = get_classes(asdict(config), scheduler_cls, kv_cache_manager_cls)
        if config.speculative == "draft_model":
            manager_cls = with_lookahead(manager_cls)
        may_swap = "num_cpu_blocks" in options_of(manager_cls) and not config.kv_offload_bytes
        if config.kv_offload_bytes is not None:
            is_alone = config.kv_transfer_config is None  # else blocks are lent, of one group
            manager_cls = tiered(manager_cls, executor.make_connector, is_alone)  # type: ignore[attr-defined]
        manager_cls, layout = with_groups(
            manager_cls,
            info.kv_specs,
            config.block_size,
            config.max_num_batched_tokens * (1 + bool(config.async_scheduling)),
        )
        self.kv_cache_plan = plan = plan_kv_cache(
            config,
            load_hf_config(resolve_model(config.model)),
            layout,
            executor.available_bytes,
            may_swap=may_swap,
        )
        executor.allocate(plan)
        self.config = with_preemption_cost(config, executor, plan)
        self._scheduler_cls, self._kv_cache_manager_cls = scheduler_cls, manager_cls
        self._core: EngineCore | None = None  # the last one
        # It loads the tokenizer when a request first wants a grammar, and never else.
        self.vocabulary = cache(partial(load_vocabulary, config.model, info.vocab_size))
        self.grammars = GrammarCompiler(self.vocabulary, config.structured_outputs_backend)
        self._open(core_cls)
        logger.info("%s: %s", config.model, executor)
        logger.info("%s", plan)

    def _open(self, core_cls: type[EngineCore]) -> None:
        """From here on there is something to close."""
        with ExitStack() as opened:
            opened.callback(self.executor.shutdown)
            opened.callback(self.grammars.close)
            self._core_cls = for_others(core_cls, self.config, opened)
            self._at_the_end = opened.pop_all()

    def make(self) -> EngineCore:
        """A scheduler, a KV cache manager and a core without requests.

        An earlier core must not be used again. If the first one cannot be made, what is open is
        closed.
        """
        try:
            core = self._make()
        except BaseException:
            if self._core is None:
                self.shutdown()
            raise
        if self._core is not None:
            core.runner_view.reset()  # the runner has what there was before
        self._core = core
        return core

    def _make(self) -> EngineCore:
        sizes = {
            name: getattr(self.kv_cache_plan, name)
            for name in ("num_blocks", "max_model_len", "num_cpu_blocks")
        }
        scheduler = make_scheduler(
            asdict(self.config) | sizes | {"groups": self.kv_cache_plan.layout.groups},
            scheduler_cls=self._scheduler_cls,
            kv_cache_manager_cls=self._kv_cache_manager_cls,
        )
        if (
            self.config.speculative == "draft_model"
            and isinstance(scheduler, SpeculativeScheduler)
            and not self.config.async_scheduling  # the device drafts by itself
        ):
            scheduler.proposer = self.executor  # type: ignore[assignment]  # a DraftModelExecutor
        scheduler.attach(EngineGate(self.grammars, self.vocabulary))
        attach_gate(scheduler)
        return self._core_cls(scheduler, self.executor)

    def shutdown(self) -> None:
        """Give back what the executor and the compiler hold, such as processes."""
        core, self._core = self._core, None
        with self._at_the_end:
            self.executor.drain()
            if core is not None and not (core.is_dead or core.in_flight):
                flush(core.scheduler.kv_cache_manager, self.executor.execute)


def with_lookahead(base: type[KVCacheManager]) -> type[KVCacheManager]:
    """The KV cache manager `base` with lookahead slots, which super().allocate_slots() gives it."""
    if issubclass(LookaheadManager, base):
        return LookaheadManager
    return type(base.__name__, (base, LookaheadManager), {})


def load_vocabulary(model: str, vocab_size: int) -> Vocabulary:
    """What the tokens of a model stand for. Raises a CheckpointError, TokenizerMissingError."""
    path = resolve_model(model)
    tokenizer = load_tokenizer(path)
    if tokenizer is None:
        raise TokenizerMissingError(f"{model} has no tokenizer: structured outputs need one")
    reader = reader_of(tokenizer)
    texts = [b"" if reader.is_special(i) else reader.token_bytes(i) for i in range(vocab_size)]
    ends = find_eos_token_ids(
        load_generation_config(path), load_hf_config(path), tokenizer, vocab_size
    )
    return Vocabulary(texts, sorted(ends))


def choose_executor(
    config: EngineConfig,
    scheduler_cls: type[SchedulerInterface],
    executor_cls: type[Executor] | None,
) -> tuple[EngineConfig, type[Executor]]:
    """The executor, with what the config adds to it, and the config with what pays on its device,
    if it is one of ours.
    """
    is_ours = executor_cls is None
    if executor_cls is None:
        executor_cls = default_executor_cls(config)
    elif config.speculative == "draft_model":
        raise InvalidParameterError(f"draft_model needs LocalExecutor, got {executor_cls.__name__}")
    if config.tensor_parallel_size > 1 and find_spec("torch"):
        from mini_vllm.worker.ranks.executor import with_ranks

        executor_cls = with_ranks(executor_cls)
    if is_ours:
        may_run_ahead = config.speculative != "suffix" and issubclass(scheduler_cls, Scheduler)
        config = executor_cls.with_defaults(config, may_run_ahead)
    if not config.enforce_eager:
        from mini_vllm.worker.compiled import with_compiled

        executor_cls = with_compiled(executor_cls)
    if config.cudagraph_mode not in (None, "none"):
        from mini_vllm.worker.graphs.runner import with_graphs

        executor_cls = with_graphs(executor_cls)
    if wants_tiers(config):
        from mini_vllm.worker.tiers.executor import with_tiers

        executor_cls = with_tiers(executor_cls, config)
    return replace(config, async_scheduling=bool(config.async_scheduling)), executor_cls


def default_executor_cls(config: EngineConfig) -> type[Executor]:
    """LocalExecutor, or that of a draft model; where torch is not installed,
    NumpyExecutor.
    """
    if find_spec("torch") is None:
        from mini_vllm.light.numpy_executor import NumpyExecutor

        return NumpyExecutor
    if config.speculative == "draft_model":
        from mini_vllm.worker.verified.executor import drafting_executor

        return drafting_executor(config.draft_model)
    from mini_vllm.worker.local_executor import LocalExecutor

    return LocalExecutor
