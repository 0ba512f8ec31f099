"""Where the work is done that a stranger asks for, so that it holds up no other request.

child_process.py  a process that can be killed: one for grammars, one for chat templates
"""
