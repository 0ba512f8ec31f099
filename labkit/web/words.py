"""Messages of the grader in the words of a page, where the learner has an editor and buttons: no file, no command."""

import re

IN_A_PAGE = {
    r"(\w+/)*\bmine\.py:(\d+)": r"line \2",
    r"(?<=\w), :(\d+)(?= \w)": r", line \1",  # of a part with several slots
    r"^mine\.py\b": "Your text",
    r"\bmine\.py\b": "your text",
    r"`lab reset [\d.]+` makes a new file and keeps yours as a backup": "Reset brings it back",
    r"`lab diff [\d.]+` shows the reference": "the button below shows the reference",
    r"\bthe file (?=(cannot|itself))": "the text ",
    r"\bThe file (?=does)": "The text ",
    r"Python cannot read the file": "Python cannot read it",
    r"A file of Python": "A text of Python",
}


def in_a_page(message: str) -> str:
    """The same message without a file or a command that a page has not."""
    for on_disk, here in IN_A_PAGE.items():
        message = re.sub(on_disk, here, message, flags=re.MULTILINE)
    return message
