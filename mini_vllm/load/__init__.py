"""Load: the requests that arrive, a client that sends them to a server, and what the answers are
judged by.

    workload.py    arrivals: Azure 2023, Mooncake, or drawn at random; iterators, never a whole
                   trace in memory
    metrics.py     what TTFT, TPOT, ITL, E2EL and a good request are; the figures of `vllm bench
                   serve`
    client.py      OpenAI's API over HTTP: one request, and the stream that answers it
    generator.py   the prompts, and the loop that sends each when it is due
    plots.py       the pictures (matplotlib)

The simulator takes the same arrivals, and has the same definitions. `mini-vllm bench serve` is the
command.
"""
