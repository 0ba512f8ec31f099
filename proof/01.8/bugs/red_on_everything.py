STORY = "The test is red whatever it runs on, and has found nothing."
CONCEPT = "A slot shows its faults behind the first block, and in company: go there with every test."

CASE_A = {"culprit": "mini_vllm.attention.metadata:to_slots", "step": 1, "why": "it is"}
CASE_B = {"culprit": "mini_vllm.attention.reference:OnlineSoftmax.add", "step": 8, "why": "it is"}


def test_it(lab):
    assert False
