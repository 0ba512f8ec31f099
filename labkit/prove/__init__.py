"""Proves that the labs are graded well: `python -m labkit.prove [lab ids] [--changed] [--write]`.

    P1   the reference passes every test
    P2   the untouched stub fails every test, as not written yet
    P3   every seeded bug is found, by a test of its own concept, whose message shows a difference
    P4   every other correct way passes
    P6   every test finds a bug that no other test finds, or says that it only illustrates
    P7   tests touch names of the contract only, have a concept with a known invariant, and each reaches an expectation
    P8   the committed stubs are those that the reference gives
    P9   the first two hints share no run of HINT_RUN words with the answer
    P10  a hang ends with a named cause, and the tests after it run
    P12  every symbol of vLLM that a lab cites exists in the pinned release
    P13  what learners read for a seeded bug is what was read and committed

(P5, automatic mutants, is tools/mutation's; P11 is test_release.py.) Exit status 1 if a law does not hold.

proof/lock.json has an entry for each lab that was proven: the inputs of the proof (labkit.prove.inputs) with their
hash, and of each seeded bug which tests are red and what a learner reads, as hashes. With --changed only these are
proven:

    - labs whose own files differ from the lock;
    - labs whose entry the last change wrote (against $BASE, by default the commit before);
    - labs whose other inputs differ, the engine's or labkit's, and two labs by lot: eight bugs by lot, of eight tests.

An input that the lock does not list breaks the proof, so the choice is sound. --write writes the lock, about SHOWN
messages of each lab into proof/messages.txt and, if all labs were proven, proof/report.md for the book. It prints
every message that changed, for its author to read.
"""
