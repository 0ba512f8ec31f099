STORY = "The test is red whatever it runs on, and has found nothing."
CONCEPT = "Starvation is a wrong place in the queue, long before: compare running requests with waiting ones."

CASE_A = {"culprit": "mini_vllm.scheduler:Scheduler._enqueue", "step": 3, "why": "it is"}
CASE_B = {"culprit": "mini_vllm.scheduler:Scheduler.needs_sample", "step": 8, "why": "it is"}


def test_it(lab):
    assert False
