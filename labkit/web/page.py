"""`lab diff ID --html FILE`: a learner's decisions beside the reference's, as two figures that step together."""

from collections.abc import Sequence
from pathlib import Path

from labkit.compare import behaviour
from labkit.labs.catalog import Lab, LabkitError
from labkit.labs.graft import Part
from mini_vllm.errors import InvalidParameterError
from mini_vllm.observe.files import printable, write_file
from mini_vllm.observe.page import Figure, caption_of, render_page


def write(file: Path, lab: Lab, parts: Sequence[Part]) -> str:
    """Write the page, and say what it shows. Errors: LabkitError if the file cannot be written.

    The scenario is the first in which something differs, or the first of all; the figures open at that step.
    """
    found = next(behaviour.compare(parts), None)
    name = found.scenario if found else next(behaviour.scenarios_for(parts))["name"]
    mine, reference = behaviour.beside(parts, name)
    step = 0
    said = [f"The same decisions in all {behaviour.NUM_SCENARIOS} scenarios, step for step."]
    if found:
        step = found.step
        said = [f"Other decisions first in step {step}.", f"yours: {found.mine}", f"reference: {found.reference}"]
    figures = [
        Figure(trace, f"{whose}: {caption_of(trace)}", {"sync": "both", "step": step})
        for whose, trace in (("yours", mine), ("reference", reference))
    ]
    try:
        write_file(file, render_page(f"lab {lab.id} {lab.title}: {name}", said, figures))
    except InvalidParameterError as error:
        raise LabkitError(str(error)) from error
    return f"wrote {printable(file)}: yours beside the reference. {said[0]}"
