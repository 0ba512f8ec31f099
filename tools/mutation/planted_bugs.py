"""Prove that the named trap tests of the core can fail: plant each trap's bug and run its tests.

    python tools/mutation/planted_bugs.py [part of a test's name ...]

Each bug is one replacement in a copy of the core. It is found if some test with the given name fails. Exit status 1 if
one is not found, or no longer applies. A few minutes in all. mutmut plants small bugs everywhere (survivors.md);
these are the large ones that engines really had.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "mini_vllm"
ROOMS = ("policies", "offload", "observe")  # what the tests of the core import beside it
TESTS = ("test_request", "test_block_pool", "test_kv_cache", "test_scheduler")

BUGS = [  # name of the tests, module, what stands there, the bug
    ("trap_01", "scheduler", "if request.num_prompt_tokens > limit:", "if False:"),
    (
        "trap_02",
        "scheduler",
        "self.kv_cache_manager = kv\n",
        "self.kv_cache_manager = kv; self.max_model_len = 10**9\n",
    ),
    ("trap_03", "scheduler", "            raise PromptTooLongError(", "            return print("),
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
    ("trap_16", "block_hash", " or a.token_ids != b.token_ids", ""),
    ("trap_17", "block_pool", "            self.uncache_block(block)\n", ""),
    ("trap_18", "block_pool", "del same[block.block_id]", "same.clear()"),
    (
        "trap_20",
        "scheduler",
        "self._admit(request, num_computed)",
        "self._admit(request, num_computed); token_budget -= num_computed",
    ),
    ("trap_20", "scheduler", "request.num_computed_tokens = num_computed_tokens", "request.num_computed_tokens = 0"),
    (
        "trap_21",
        "scheduler",
        "self._schedule_running(list(self.running)",
        "self._schedule_running(sorted(self.running, key=lambda r: hash(r.request_id))",
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
    ("trap_27", "scheduler", "self.num_scheduled_tokens.pop(request.request_id, 0)", "0"),
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
        "computed_blocks):\n                break",
        "computed_blocks):\n                self.waiting.rotate(-1); break",
    ),
    ("trap_62", "params", "if name not in known:", "if False:"),
    ("quirk_stale_hit", "kv_cache", "if not request.is_finished:", "if False:"),
    ("fail_step", "scheduler", "            elif request.is_finished:\n", "            elif False:\n"),
    ("linear", "block_hash", "other.parent = self.parent", "pass"),
    ("deep_recursion", "block_hash", "        a, b = self, other\n", "        return self.parent == other.parent\n"),
]


def is_found(name: str, module: str, old: str, new: str) -> bool:
    """Run the tests called `name` on a copy of the core that has the bug."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "mini_vllm"
        copy.mkdir()
        for source_file in (
            *PACKAGE.glob("*.py"),
            *(file for room in ROOMS for file in (PACKAGE / room).rglob("*.py")),
        ):
            target = copy / source_file.relative_to(PACKAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source_file.read_text())
        path = copy / f"{module}.py"
        source = path.read_text()
        if old not in source:
            raise SystemExit(f"{name}: {module}.py has no longer {old!r}")
        path.write_text(source.replace(old, new))
        arguments = ["-q", "-x", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={folder}", "-k", name]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments, *(str(copy / f"{stem}.py") for stem in TESTS)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if run.returncode not in (0, 1):
            raise SystemExit(f"{name}: pytest could not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        return run.returncode == 1


def main() -> None:
    wanted = sys.argv[1:]
    missed = []
    for name, module, old, new in BUGS:
        if not wanted or any(part in name for part in wanted):
            found = is_found(name, module, old, new)
            line = old.strip().splitlines()[0]
            print(f"{'found ' if found else 'MISSED'}  {name:16} {module}.py: {line}", flush=True)
            missed += [name] * (not found)
    sys.exit(f"{len(missed)} not found: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
