# === other_sizes
"""The same laws with other texts, seeds, windows and times."""

EDITS = [
    ("DOCUMENT = [1, 2, 3, 4, 5, 6]", "DOCUMENT = [21, 22, 23, 24, 25, 26]"),
    ("for seed in range(16):", "for seed in range(40, 60):"),
    ("for seed in range(5):", "for seed in range(30, 36):"),
    ("rng.choice((1, 2, 4)), rng.randint(2, 9)", "rng.choice((1, 2, 3)), rng.randint(2, 7)"),
    ("now[0] = 99.0", "now[0] = 300.0"),
]


# === more_jobs_at_once
"""Other numbers of steps between two arrivals, and more files that vanish."""

EDITS = [
    ("for number in range(10):", "for number in range(12):"),
    ("rng.randint(1, 4)):", "rng.randint(1, 3)):"),
    ("if rng.random() < 0.2 and world.disk:", "if rng.random() < 0.3 and world.disk:"),
]
