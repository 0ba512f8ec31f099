"""What the two engines of lab 02.6 left behind: a few requests, of which two or three begin alike."""

from labkit.labs.evidence import honest_trace

BEGINNING = range(10, 20)


def request(name, prompt, max_tokens, arrival_step):
    return {"id": name, "prompt": list(prompt), "max_tokens": max_tokens, "arrival_step": arrival_step}


NUM_BLOCKS = {"a": 11, "b": 13}
REQUESTS = {
    "a": [
        request("p", BEGINNING, 3, 0),
        request("q", range(50, 69), 8, 4),
        request("r", range(70, 75), 12, 5),
        request("s", [*BEGINNING, 3, 4, 5], 5, 13),
    ],
    "b": [
        request("p", BEGINNING, 9, 0),
        request("q", [*BEGINNING, 1], 14, 1),
        request("r", [*BEGINNING, 2], 22, 2),
        request("s", range(30, 35), 13, 6),
        request("t", range(40, 48), 12, 12),
        request("u", range(60, 76), 6, 18),
    ],
}


def evidence(case):
    config = {
        "block_size": 4,
        "num_blocks": NUM_BLOCKS[case],
        "max_num_seqs": 4,
        "max_num_batched_tokens": 32,
        "enable_prefix_caching": True,
    }
    return honest_trace({"name": f"lab 02.6, case {case}", "config": config, "requests": REQUESTS[case]}, max_steps=60)
