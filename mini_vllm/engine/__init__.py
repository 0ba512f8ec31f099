"""The loop and what stands around it, in the order of reading.

core.py          schedule() -> execute() -> update_from_output()
runner_view.py   what the runner has of each request, so that a step brings only what is new
llm_engine.py    text on both sides of the core
llm.py           LLM: a call that waits for its requests
interrupts.py    Ctrl-C, which arrives between two steps of such a call
recovery.py      a core that tries a step again when the device has failed, for a server
one_by_one.py    how that core finds the request at fault: the step again, one request at a time
"""
