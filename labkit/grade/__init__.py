"""Runs the tests of a lab on a learner's parts, and says what a red one means.

runner.py      the tests of a lab, without pytest
plugin.py      the same under pytest
breaking.py    labs in which the learner writes the tests
messages.py    what a learner reads when a test is red
notes.py       what is found out about a red test by running it again
isolated.py    grades a file in a process of its own
confined.py    that process
intact.py      whether what judges there is as it was
watchdog.py    ends code that does not end
deadline.py    the time for which a thread has run
"""
