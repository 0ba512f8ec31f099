"""The family of schedulers, all subclasses of mini_vllm.scheduler.SchedulerInterface, selectable by
name.

    v1               vLLM V1: one token budget, running first, chunked prefill
                     (mini_vllm/scheduler.py)
    prefill_first    a step admits and prefills, or it decodes
    nano_vllm        the same as nano-vllm does it, in its first or its newest version
    sequence_group   vLLM V0: prompts first; groups that fork, copy on write and swap
    warm_first       by a score: warm resumes, prefills, the tail of decodes; ageing
    tenants          V1, fair between tenants, each with a quota of cached blocks

`policy` is something else: the order within a scheduler, "fcfs" or "priority".
"""
