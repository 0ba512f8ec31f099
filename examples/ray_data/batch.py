"""Answers for files of prompts, on as many machines as the cluster of Ray has, by Ray Data.

    python examples/ray_data/batch.py prompts/ answers/ --num-engines 2

prompts: a file or a folder of JSON lines, each with a unique "id" and a "prompt" (completed as it is) or "messages" (a
conversation). answers: a folder, which gets JSON lines with the same id, the text and why it ended. If the work is cut
off, the same command goes on where it stopped: a row whose answer is there is not computed again.

Ray starts an engine in as many of its processes as are asked for, hands each one a batch when it has room, and gives
the batch of a process that has died to another one (https://docs.ray.io/en/latest/data). It needs `ray[data]`; `make
ray` installs it into .venv/ray.
"""

import argparse
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

# Ray's processes import what this one imports.
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

Batch = dict[str, Any]


class Answerer:
    """One engine. Ray makes it once in each process and calls it with batches of rows."""

    def __init__(self, model: str, max_tokens: int) -> None:
        from mini_vllm import LLM, SamplingParams

        self.llm = LLM(model)
        self.params = SamplingParams(temperature=0, max_tokens=max_tokens)

    def __call__(self, batch: Batch) -> Batch:
        """All rows of a batch run at once in the engine, whose scheduler mixes them."""
        rows = [{name: column[i] for name, column in batch.items()} for i in range(len(batch["id"]))]
        prompts = [self.prompt_of(row) for row in rows]
        outputs = self.llm.generate(prompts, self.params, use_progress=False)
        return {
            "id": [row["id"] for row in rows],
            "text": [output.outputs[0].text for output in outputs],
            "finish_reason": [output.outputs[0].finish_reason for output in outputs],
        }

    def prompt_of(self, row: dict[str, Any]) -> Any:
        if row.get("messages") is None:
            return row["prompt"]
        return self.llm.apply_chat_template([dict(each) for each in row["messages"]])


def ids_in(folder: Path) -> set[str]:
    """Of the answers that are there. The last line of a file may be cut off."""
    found = set()
    for line in (line for file in folder.glob("*.json") for line in file.read_text().splitlines()):
        with suppress(ValueError):
            found.add(json.loads(line)["id"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("prompts", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--num-engines", type=int, default=1)
    parser.add_argument("--num-gpus", type=float, default=0, help="of one engine")
    parser.add_argument("--batch-size", type=int, default=256)
    given = parser.parse_args()
    # Reading and writing want a core each of those that Ray gives out, and this machine may have few.
    cores = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": 8}
    ray.init(include_dashboard=False, log_to_driver=False, **cores)
    done = ids_in(given.answers)
    rows = ray.data.read_json(str(given.prompts.resolve()), lines=True).filter(lambda row: row["id"] not in done)
    answers = rows.map_batches(
        Answerer,
        fn_constructor_args=(given.model, given.max_tokens),
        batch_size=given.batch_size,
        compute=ray.data.ActorPoolStrategy(size=given.num_engines),
        num_cpus=0.1,  # of what Ray gives out; an engine takes the cores that are free
        num_gpus=given.num_gpus,
    )
    answers.write_json(str(given.answers.resolve()))


if __name__ == "__main__":
    main()
