"""A lab as files: what there is, what a stub is cut from, and how a learner's parts get into the engine.

catalog.py          the labs of labs.toml
source.py           stubs and solutions are cut from the reference; a learner's file is looked over before it runs
taken.py            what a learner's file holds that is the reference's, or leads to the grader
implementations.py  the learner's file, the stub, the reference, seeded bugs and other correct ways
graft.py            puts parts into the reference, and takes them out again
classes.py          takes a learner's class apart for that
together.py         brings the learner's parts of other labs along
evidence.py         what an engine with a bug left behind, for labs of debugging
progress.py         what a learner has done so far
"""
