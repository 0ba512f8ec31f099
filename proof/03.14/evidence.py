"""What the two schedulers of lab 03.14 left behind: too few blocks for all, so that somebody gives way."""

from labkit.labs.evidence import honest_trace


def request(name, prompt, max_tokens, arrival_step):
    return {"id": name, "prompt": list(prompt), "max_tokens": max_tokens, "arrival_step": arrival_step}


CONFIGS = {
    "a": {"block_size": 2, "num_blocks": 9, "max_num_seqs": 3, "max_num_batched_tokens": 8},
    "b": {"block_size": 2, "num_blocks": 8, "max_num_seqs": 3, "max_num_batched_tokens": 5},
}
REQUESTS = {
    "a": [
        request("p", range(10, 14), 9, 0),
        request("q", range(20, 25), 8, 0),
        *(request(name, range(30 + 10 * i, 33 + 10 * i), 5, 2 + i) for i, name in enumerate("rstuvwxyz")),
    ],
    "b": [
        request("p", range(10, 14), 8, 0),
        request("q", range(20, 23), 8, 0),
        request("r", range(30, 35), 7, 1),
        request("s", range(40, 42), 5, 6),
    ],
}


def evidence(case):
    config = {**CONFIGS[case], "enable_prefix_caching": False}
    return honest_trace({"name": f"lab 03.14, case {case}", "config": config, "requests": REQUESTS[case]}, max_steps=80)
