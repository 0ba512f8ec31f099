"""The command: `python -m labkit.prove`."""

import argparse
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import labkit.prove
from labkit.labs.catalog import find_lab, labs
from labkit.prove.inputs import forget_digests
from labkit.prove.laws import Proof, prove, prove_messages
from labkit.prove.lock import choose, entry_of, git, read_lock, write_lock
from labkit.prove.report import REPORT, messages_to_show, read_messages, report_of, write_messages

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a second thread costs more than it brings
FORK = get_context("forkserver")  # torch is imported once
FORK.set_forkserver_preload(["torch"])


def main() -> None:
    """Prove the labs named, those that changed, or all."""
    assert labkit.prove.__doc__
    parser = argparse.ArgumentParser(description=labkit.prove.__doc__.splitlines()[0])
    parser.add_argument("labs", nargs="*")
    parser.add_argument("--changed", action="store_true", help="only what differs from proof/lock.json, and two by lot")
    parser.add_argument("--write", action="store_true", help="write proof/lock.json, the report and the messages")
    parser.add_argument("--messages", action="store_true", help="print what a learner reads for every seeded bug")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    locked, shown = read_lock(), read_messages()
    work: list[tuple[str, str, set[str] | None]] = [(lab_id, "", None) for lab_id in args.labs]
    lot = random.Random(git("rev-parse", "HEAD"))  # the same lot for all at this commit
    if args.changed:
        work = list(choose(locked, lot))
    elif not work:
        work = [(lab.id, "", None) for lab in labs()]
    proofs = []
    with ProcessPoolExecutor(args.workers, mp_context=FORK, max_tasks_per_child=1) as pool:
        longest_first = sorted(work, key=lambda each: not find_lab(each[0]).is_break_it)
        running = {
            lab_id: pool.submit(prove, lab_id, locked.get(lab_id), None if args.write else bugs)
            for lab_id, _, bugs in longest_first
        }
        for lab_id, why, _ in work:
            proofs.append(running[lab_id].result())
            proofs[-1].broken += prove_messages(proofs[-1], locked.get(proofs[-1].lab_id, {}), shown[proofs[-1].lab_id])
            tell(proofs[-1], why, with_messages=args.messages, writes=args.write)
            if args.write:
                write(proofs[-1])
    if args.write and len(proofs) == len(list(labs())):
        REPORT.write_text(report_of(proofs), encoding="utf-8")
    if args.changed:
        print(f"{len(proofs)} of {len(list(labs()))} labs were proven.")
    sys.exit(any(proof.broken for proof in proofs))


def tell(proof: Proof, why: str, *, with_messages: bool, writes: bool) -> None:
    """One line for a lab, and below it what does not hold; if it is to be written, the messages that changed."""
    changed = [sentence for sentence in proof.broken if sentence.startswith(("P13", "proof/lock.json"))]
    if writes:
        proof.broken = [sentence for sentence in proof.broken if sentence not in changed]
    print(
        f"{proof.lab_id:5}  {proof.num_tests:3} tests  {len(proof.red):3} of {proof.num_bugs:3} bugs  "
        f"{len(proof.variants)} variants  {proof.note or ('holds' if not proof.broken else 'BROKEN')}"
        + (f"  ({why})" if why else "")
    )
    for sentence in proof.broken:
        print(f"      {sentence if with_messages else sentence.splitlines()[0]}")
    for sentence in changed if writes else ():
        if sentence.startswith("P13"):
            print(sentence.partition("\n")[2] + "\n")
    for bug, message in proof.messages.items() if with_messages else ():
        print(f"\n=== {proof.lab_id} {bug}\n{message}")
    sys.stdout.flush()


def write(proof: Proof) -> None:
    """--write, for a lab that holds: at once, so that what is stopped later is not lost."""
    if not proof.red or proof.broken:
        return
    shown = read_messages()
    write_messages({**shown, proof.lab_id: messages_to_show(proof, shown[proof.lab_id])})
    forget_digests()
    locked = read_lock()
    write_lock({**locked, proof.lab_id: entry_of(proof, locked.get(proof.lab_id))})


if __name__ == "__main__":
    main()
