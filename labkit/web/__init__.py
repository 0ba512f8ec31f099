"""What pages show of the labs.

book.py           what a page of the book asks for, in Pyodide
conversation.py   the bundled model answers on an engine with a learner's parts in it
page.py           the page of `lab diff --html`
"""
