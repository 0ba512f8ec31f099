STORY = "The culprits are known, and the test looks at nothing."
CONCEPT = "Pieces of a softmax are right by themselves: let the largest score lie in each of them."

CASE_A = {"culprit": "mini_vllm.attention.metadata:to_slots", "step": 1, "why": "it is"}
CASE_B = {"culprit": "mini_vllm.attention.reference:OnlineSoftmax.add", "step": 8, "why": "it is"}


def test_it(lab):
    lab.PackedRequest([1], 0, 1)
