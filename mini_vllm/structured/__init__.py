"""Structured outputs: what a request writes has the form that it asks for, whatever the model would
have written.

In the order of a request:

schema.py      what is refused before anything is compiled, and which back end takes the rest
compiler.py    compiled grammars by their text, and the process that compiles them
worker.py      that process, which can be killed
sandbox/      such a process from this side; the one for chat templates is another
backends.py    xgrammar and llguidance: compiling there, and here a matcher for each request
automaton.py  masks from an automaton over bytes, in Python: choices without either of them
scheduler.py   a request waits for its grammar, is masked by it, and tells it what was sampled
"""

BACKENDS = ("auto", "xgrammar", "guidance", "automaton")
