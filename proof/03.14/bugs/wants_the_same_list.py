STORY = "A test keeps the list of those who run and looks into it later. A scheduler may make a new one."
CONCEPT = "A test for a bug is green where the bug is not, however the scheduler is written."
EDITS = [
    (
        "def test_newcomers_wait_for_victims(lab):\n",
        'def test_the_list(lab):\n    scheduler = make(lab, blocks=7)\n    running = scheduler.running\n    for name in "abc":\n        scheduler.add_request(make_request(lab, name, 3, max_tokens=6))\n    for _ in range(9):\n        lab.drive(scheduler)\n        assert running is scheduler.running\n\n\ndef test_newcomers_wait_for_victims(lab):\n',
    ),
]
