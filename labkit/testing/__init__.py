"""What a lab's tests are made of.

words.py      concept, check, cases, raises, todo
search.py     many cases at random, and the smallest that fails
worlds.py     walks over a scheduler whose pool is tight
draw.py       pictures of state in plain text, and the loop of the engine without a model
honest.py     a model without weights whose tokens depend on what the slots hold
drafting.py   the same model for a scheduler with drafts
"""
