"""Where the work is done that a stranger asks for, so that it holds up no other request.

child_process.py  a process that can be killed: one for grammars, one for chat templates
fair_threads.py   the threads that wait for them, in turns between the tenants of a server
"""
