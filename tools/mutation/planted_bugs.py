"""Prove that the named tests of the core and of its recovery can fail: plant a bug and run its tests.

    python tools/mutation/planted_bugs.py [part of a test's name ...]

Each bug is one replacement in a copy of the package. It is found if some test with the given name fails. Exit status 1
if one is not found, or no longer applies. A few minutes in all. mutmut plants small bugs everywhere (survivors.md);
these are the large ones that engines really had.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "mini_vllm"
TESTS = ("test_request", "test_block_pool", "test_kv_cache", "test_scheduler")

BUGS = [  # name of the tests, module, what stands there, the bug
    ("trap_01", "errors", "if num_prompt_tokens > limit:", "if False:"),
    (
        "trap_02",
        "scheduler_interface",
        "        self.waiting: deque[Request]",
        "        self.max_model_len = 10**9; self.waiting: deque[Request]",
    ),
    ("trap_03", "errors", "        raise PromptTooLongError(", "        return print("),
    ("trap_04", "scheduler", "len(self.running) < self.max_num_seqs", "True"),
    ("trap_05", "kv_cache", "-(-num_tokens // self.block_size)", "num_tokens // self.block_size + 1"),
    ("trap_06", "kv_cache", "num_needed += sum(block.ref_cnt == 0 for block in computed_blocks)", "pass"),
    ("trap_06", "kv_cache", " - len(computed_blocks), 0)", ", 0)"),
    ("trap_07", "block_pool", "block.ref_cnt = 1", "block.ref_cnt = 2"),
    ("trap_08", "block_pool", "in reversed(table)", "in table"),
    (
        "trap_09",
        "block_pool",
        "self.free_queue.remove(block)",
        "self.free_queue.block_ids(); self.free_queue.remove(block)",
    ),
    ("trap_11", "kv_cache", "range((request.num_tokens - 1) // ", "range(request.num_tokens // "),
    (
        "trap_12",
        "kv_cache",
        "num_tokens // block_size\n            if",
        "request.num_tokens // block_size\n            if",
    ),
    ("trap_13", "kv_cache", "[i * size : (i + 1) * size]", "[i * size : (i + 1) * size - 1]"),
    ("trap_14", "kv_cache", "self._hash_block(hashes[-1], token_ids, None)", "self._hash_block(None, token_ids, None)"),
    ("trap_15", "kv_cache", "request.cache_salt)", "None)"),
    ("told_apart", "block_hash", "content = (parent, token_ids,", "content = (parent, hash(token_ids),"),
    ("trap_17", "block_pool", "            self.uncache_block(block)\n", ""),
    ("trap_18", "block_pool", "del same[block.block_id]", "same.clear()"),
    (
        "trap_20",
        "scheduler",
        "token_budget -= n\n        self._put_back(output)",
        "token_budget -= n + num_computed\n        self._put_back(output)",
    ),
    ("trap_20", "scheduler", "request.num_computed_tokens = num_computed_tokens", "request.num_computed_tokens = 0"),
    (
        "trap_21",
        "scheduler",
        "            list(self.running), output, self.max_num_batched_tokens",
        "            sorted(self.running, key=lambda r: hash(r.request_id)), output, self.max_num_batched_tokens",
    ),
    (
        "trap_22",
        "scheduler",
        "= self._schedule_running(",
        "= self.max_num_batched_tokens if self.waiting else self._schedule_running(",
    ),
    ("trap_23", "scheduler", "        request.num_computed_tokens = 0\n", ""),
    (
        "trap_24",
        "scheduler",
        "(target - num_computed_tokens, token_budget)",
        "(request.num_prompt_tokens - num_computed_tokens, token_budget)",
    ),
    ("trap_25", "scheduler", "return request.num_computed_tokens + num_scheduled >= request.num_tokens", "return True"),
    ("trap_26", "request", "        self.all_token_ids.append(token_id)\n", ""),
    ("trap_27", "scheduler", "token_budget += output.drop(victim)", "output.drop(victim)"),
    ("trap_27", "scheduler_interface", "self.num_scheduled_tokens.pop(request.request_id, 0)", "0"),
    ("trap_28", "scheduler", "return self.running.pop()", "return self.running.pop(0)"),
    ("trap_29", "scheduler", "max(self.running, key=", "min(self.running, key="),
    (
        "trap_29",
        "scheduler",
        "key=lambda request: (request.priority, request.arrival_time)",
        "key=lambda request: request.arrival_time",
    ),
    (
        "trap_30",
        "scheduler",
        "computed_blocks\n            ):\n                break",
        "computed_blocks\n            ):\n                self.waiting.rotate(-1); break",
    ),
    ("trap_62", "errors", "in sorted(kwargs.keys() - known)", "in ()"),
    ("quirk_stale_hit", "kv_cache", "if not request.is_finished:", "if False:"),
    ("fail_step", "scheduler", "            elif request.is_finished:\n", "            elif False:\n"),
    ("last_who_holds", "block_hash", "_names = WeakValueDictionary()", "_names = {}"),
]


FAULTS = [  # part of the tests' names, module, what stands there, the bug; in test_recovery.py and test_soak.py
    ("runner_forgets", "engine/recovery", "            self.runner_view.reset()", "            pass"),
    ("requests_at_fault_one_after", "engine/recovery", "self._num_failures = ALIKE\n", "pass\n"),
    ("fault_that_passes", "engine/recovery", "> MOST_FAILURES and", "> ALIKE and"),
    ("faults_of_every_kind", "scheduler_interface", "kv.end_step(None)", "pass"),
    ("every_step_fail", "engine/recovery", "if self._num_failures < ALIKE:", "if True:"),
    ("finds_no_block", "engine/core", "self.scheduler.kv_cache_manager.withdraw(request, request.num_tokens)", "pass"),
    ("runner_forgets", "engine/core", " or self.runner_view.forget_all\n", "\n"),
    (
        "may_abort_and_add",
        "engine/core",
        "if (name := request.request_id) not in ended",
        "if (name := request.request_id)",
    ),
    (
        "dead_engine",
        "engine/core",
        "        if self.is_dead:\n            raise",
        "        if False:\n            raise",
    ),
    ("ctrl_c", "engine/interrupts", "if self._num_presses > 1 and", "if self._num_presses > 9 and"),
    ("requests_are_dropped", "engine/llm", "                interrupts.leave()\n", "                pass\n"),
    ("passes_in_a_part", "engine/one_by_one", "NUM_TRIES = 4", "NUM_TRIES = 1"),
    ("passes_in_a_part", "engine/one_by_one", "failed.pop(request_id, None)", "pass"),
    (
        "tokens_without_a_text",
        "frontend/output_processor",
        '            choice.finish_reason = "error"',
        "            pass",
    ),
    ("may_abort_its_own", "frontend/output_processor", " or self.is_aborted:", ":"),
    ("step_within_a_step", "engine/llm_engine", "        self._is_stepping = True\n", ""),
    ("went_with_a_failed_call", "engine/llm", "            self._results.clear()\n", ""),
]
FAULT_TESTS = ("engine/test_recovery", "policies/test_soak")


def is_found(name: str, module: str, old: str, new: str, tests: Sequence[str]) -> bool:
    """Run the tests called `name` on a copy of the package that has the bug."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "mini_vllm"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PACKAGE.parent / "conftest.py", folder)
        path = copy / f"{module}.py"
        source = path.read_text()
        if old not in source:
            raise SystemExit(f"{name}: {module}.py has no longer {old!r}")
        path.write_text(source.replace(old, new))
        arguments = ["-q", "-x", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={folder}"]
        arguments += ["-m", "not slow and not nightly", "-k", name]
        command = [sys.executable, "-m", "pytest", *arguments, *(str(copy / f"{stem}.py") for stem in tests)]
        environment = os.environ | {"PYTHONPATH": folder}
        try:
            run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:  # a wait without end
            return True
        if run.returncode not in (0, 1):
            raise SystemExit(f"{name}: pytest could not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        return run.returncode == 1


def main() -> None:
    wanted = sys.argv[1:]
    missed = []
    for name, module, old, new, tests in [*((*bug, TESTS) for bug in BUGS), *((*bug, FAULT_TESTS) for bug in FAULTS)]:
        if not wanted or any(part in name for part in wanted):
            found = is_found(name, module, old, new, tests)
            line = old.strip().splitlines()[0]
            print(f"{'found ' if found else 'MISSED'}  {name:32} {module}.py: {line}", flush=True)
            missed += [name] * (not found)
    sys.exit(f"{len(missed)} not found: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
