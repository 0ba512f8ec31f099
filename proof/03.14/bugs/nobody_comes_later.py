STORY = "All requests are there from the beginning, and admitted together. Nobody is left to overtake."
CONCEPT = "Starvation is a wrong place in the queue, long before: compare running requests with waiting ones."
EDITS = [
    (
        '        for name in "abcdefgh":\n            run.add(name, 3, max_tokens=6)\n            run.step()\n',
        '        for name in "ab":\n            run.add(name, 3, max_tokens=6)\n',
    ),
    (
        '    for name in "abcd":\n',
        '    for name in "ab":\n',
    ),
    (
        'zip("abc", (4, 3, 5))',
        'zip("ab", (4, 5))',
    ),
]
