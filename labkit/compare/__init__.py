"""Two runs beside each other, and the first decision that differs.

behaviour.py   two schedulers on the same arrivals
replay.py      our classes on the inputs of a recorded run of vLLM or nano-vllm
"""
