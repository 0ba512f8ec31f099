"""The drawn pictures of the book, a file a phase.

A picture is a function; for a phone it draws the same NARROW units wide, which tools/book/hooks.py adds to a page. Its
numbers are computed, or read from the traces of docs/figures/ and from the tables of benchmarks/results/.
"""

from collections.abc import Callable

from tools.book.drawing import Drawing
from tools.book.pictures import measured, phase_01, phase_02, phase_03, phase_04, phase_05, phase_06, phase_07, phase_08

PICTURES: dict[str, Callable[[bool], Drawing]] = {
    **phase_01.PICTURES,
    **phase_02.PICTURES,
    **phase_03.PICTURES,
    **phase_04.PICTURES,
    **phase_05.PICTURES,
    **phase_06.PICTURES,
    **phase_07.PICTURES,
    **phase_08.PICTURES,
    **measured.PICTURES,
}
