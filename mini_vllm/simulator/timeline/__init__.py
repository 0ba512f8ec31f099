"""What the first requests of a simulated run waited for, as lines of text.

spans.py    a part that notes what each request does in each step; transfers are told by roles
render.py   one line for each request, time to the right
"""
