STORY = (
    "A test wants every step to compute somebody who waits if the budget has room. A correct scheduler may hold back."
)
CONCEPT = "A test for a bug is green where the bug is not, however the scheduler is written."
EDITS = [
    (
        "def test_newcomers_wait_for_victims(lab):\n",
        'def test_the_budget_is_used_up(lab):\n    scheduler = make(lab, blocks=4, budget=8)\n    for name in "ab":\n        scheduler.add_request(make_request(lab, name, 5))\n    output = scheduler.schedule()\n    assert sum(output.num_scheduled_tokens.values()) == 8\n\n\ndef test_newcomers_wait_for_victims(lab):\n',
    ),
]
