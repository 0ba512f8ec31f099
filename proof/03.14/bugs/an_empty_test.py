STORY = "The culprits are known, and the test looks at nothing."
CONCEPT = "A victim comes back in pieces, and says what it would have said: force it, and compare."

CASE_A = {"culprit": "mini_vllm.scheduler:Scheduler._enqueue", "step": 3, "why": "it is"}
CASE_B = {"culprit": "mini_vllm.scheduler:Scheduler.needs_sample", "step": 8, "why": "it is"}


def test_it(lab):
    lab.KVCacheManager(8, 4)
