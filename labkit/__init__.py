"""labkit: grades a learner's parts of the engine, and proves that the grading is good.

What a lab's files import is here, and nothing else: `todo` in a stub; `concept`, `cases`, `raises`, `check`, `walk`,
`search`, `some`, `scaled`, `processor_seconds` and the worlds to walk in, in its tests. The same tests run under pytest
on disk and under labkit's small runner in a page of the book, so this module and what it imports need the standard
library only.
"""

from labkit.search import attempt, processor_seconds, scaled, search, some, walk
from labkit.testing import Check, LabFailure, LabTodo, cases, check, concept, raises, todo
from labkit.worlds import Options, make_scheduler, plan_world, play_world

__all__ = [
    "Check",
    "LabFailure",
    "LabTodo",
    "Options",
    "attempt",
    "cases",
    "check",
    "concept",
    "make_scheduler",
    "plan_world",
    "play_world",
    "processor_seconds",
    "raises",
    "scaled",
    "search",
    "some",
    "todo",
    "walk",
]
