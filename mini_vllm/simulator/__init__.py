"""A discrete-event simulator: the real scheduler and KV cache manager, arrivals, and a model of a
step's time.

    step_time.py   seconds of a step,
    linear in what it computes; fitted to measured ones (calibrate)
    sim_request.py a request of a trace as the scheduler sees it: names of blocks for token ids
    replica.py     one simulated engine: a real scheduler, and a clock that the step times move
    metrics.py     latencies, goodput, use of the cache, in memory that does not grow with the trace
    fleet.py       many replicas behind a router; simulate() runs a trace through them
    calibration.py the calibrations that are bundled, or a file, and the engine of one
    report.py      the figures of several runs, side by side
    plots.py       the pictures (matplotlib)
    tiers/         main memory and a disk behind the prefix cache of each replica
    roles/         prefill workers and decode workers, with a link between them
    timeline/      what the first requests waited for, as text
    eviction/      policies of a prefix cache, and their bound, on the names of a trace

Arrivals are those of mini_vllm/load. No model runs and no clock is read: the same trace gives the
same figures on any machine. That schedulers are compared without a GPU is the idea of Vidur
(Agrawal et al., MLSys 2024), which predicts a step's time operator by operator.
"""
