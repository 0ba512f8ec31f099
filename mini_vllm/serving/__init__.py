"""The engine as a service: the engine in a process of its own, and an HTTP server in front of it.

In the order of a request:

app.py             puts together what stands between a socket and an answer
asgi.py            bodies in, JSON and events out, errors, clients that leave
guard.py           which requests are let in: keys, names of the server, pages in browsers
routes.py          what is answered: a handler for each path
live.py, page.html a chat in the browser, and beside it what the engine does in each step
openai/            what a client may send, and what it gets: OpenAI's shapes
  jobs.py          what is asked, as prompts and ways to sample
  generate.py      the outputs of all prompts of a request, in time
connections.py     how many connections there are, and how long a client may take to send
log.py             a line for each answer, and one of the throughput
async_engine.py    one async iterator for each request; text is made here
engine_client.py   how commands and events travel, to a thread or to a process
messages.py        what crosses the boundary between the two processes
engine_process.py  the busy loop: take every command, one step, one message out

A token has four shapes on its way from the model to a client, one for each boundary:

StepOutput         from the runner to the core
TokenDelta         from the core to the front, in the same process or in another one
RequestOutput      from the front to its user
JSON               of a chunk, whose bytes are sent
"""
