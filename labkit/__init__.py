"""labkit: grades a learner's parts of the engine, and proves that the grading is good.

    labs/      a lab as files: the catalogue, what a stub is cut from, how parts get into the engine
    testing/   what a lab's tests are made of: the words, random cases, worlds, an honest model
    kernels/   labs whose answer is a kernel: how one that leaves its arrays is caught
    steps/     the reference of labs of phase 07 whose part of the engine needs a GPU
    ranks/     the reference of labs of phase 08, and ranks in one process that run on it
    waste.py   lab 01.6's part of the reference: how much of the KV memory holds tokens
    grade/     runs the tests on a learner's file, in a process of its own, and explains a red one
    compare/   two runs beside each other: a learner's and the reference's, ours and a recorded one
    cli/       the command `lab`
    web/       what pages of the book ask for
    prove/     proves that the grading is good: `python -m labkit.prove`

What a lab's files import is here, in waste.py and in kernels/strays.py, and nothing else: `todo` in a stub; `concept`,
`cases`, `raises`, `check`, `walk`, `search`, `some`, `scaled`, `far`, `processor_seconds` and the worlds to walk in, in
its tests. The same tests run under pytest on disk and under labkit's small runner in a page of the book, so this module
and what it imports need the standard library only.
"""

from labkit.testing.search import attempt, far, processor_seconds, scaled, search, some, walk
from labkit.testing.words import Check, LabFailure, LabTodo, cases, check, concept, raises, todo
from labkit.testing.worlds import Options, make_scheduler, plan_world, play_world

__all__ = [
    "Check",
    "LabFailure",
    "LabTodo",
    "Options",
    "attempt",
    "cases",
    "check",
    "concept",
    "far",
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
