"""Simulated roles: some engines compute prompts, the other ones decode, K and V go between them.

    options.py   how many engines of each role there are, and the link
    decode.py    a decode worker: prompts come to it computed
    fleet.py     simulate_roles() runs a trace through both
    verdict.py   which of two fleets has the better TTFT and ITL

Sources: DistServe (Zhong et al., OSDI 2024), Splitwise (Patel et al., ISCA 2024). As in vLLM behind
its router, the decode worker samples the first token: it computes the last token of the prompt
again.
"""
