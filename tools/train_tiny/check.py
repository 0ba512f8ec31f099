"""Asks the tiny model every question it should know and compares the answers, word for word, with the glossary.

Run: `python tools/train_tiny/check.py`. Exit status 1 when a greedy fp32 answer differs.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from conversations import REFUSAL, SYSTEM_PROMPT, TURN_END
from glossary import Term, load_glossary, phrasings
from train import OUT
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

BATCH_SIZE = 50
LONG_CONVERSATION = 850  # tokens of history before the last question
UNSEEN_QUESTIONS = (
    "What is a piano?",
    "What is the capital of Spain?",
    "Explain quantum mechanics.",
    "Who painted the Mona Lisa?",
    "What does serendipity mean?",
    "Define entropy.",
    "Tell me about dinosaurs.",
    "What is Java?",
    "How do I bake a cake?",
    "What is a submarine?",
    "What is 12 + 30?",
    "Describe the city of Vienna.",
    "Nice to meet you.",
    "What is a neural network?",
    "Which film should I watch?",
    "What is love?",
    "Explain the rules of tennis.",
    "What is a tomato?",
    "Where does rain come from?",
    "What is an umbrella?",
)
Message = dict[str, str]


def chat(question: str, system_prompt: str | None = None) -> list[Message]:
    """The messages of a one-turn conversation."""
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": question}]


def exchange(term: Term, question: str) -> list[Message]:
    """A question and the answer it should get."""
    return [{"role": "user", "content": question}, {"role": "assistant", "content": term.definition}]


class Examinee:
    """The model under test in one dtype, with its tokenizer."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()

    def render(self, messages: list[Message], add_generation_prompt: bool = True) -> str:
        """The conversation as the model reads it."""
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)

    def num_tokens(self, messages: list[Message]) -> int:
        """The length of a conversation."""
        return len(self.tokenizer(self.render(messages, False))["input_ids"]) if messages else 0

    @torch.inference_mode()
    def answers(self, prompts: Sequence[str]) -> list[str]:
        """Greedy answers to rendered prompts."""
        found = []
        for start in range(0, len(prompts), BATCH_SIZE):
            inputs = self.tokenizer(list(prompts[start : start + BATCH_SIZE]), return_tensors="pt", padding=True)
            inputs.pop("token_type_ids", None)
            output = self.model.generate(**inputs, max_new_tokens=120, do_sample=False)
            generated = output[:, inputs["input_ids"].shape[1] :]
            found += self.tokenizer.batch_decode(generated, skip_special_tokens=True)
        return found

    @torch.inference_mode()
    def margin(self, prompt: str, answer: str) -> float:
        """The smallest lead of the right token over the best other one along the answer; negative where it is wrong."""
        prompt_ids = self.tokenizer(prompt)["input_ids"]
        answer_ids = self.tokenizer(answer + TURN_END)["input_ids"]
        logits = self.model(input_ids=torch.tensor([prompt_ids + answer_ids[:-1]])).logits[0, len(prompt_ids) - 1 :]
        index = torch.tensor(answer_ids)[:, None]
        right = logits.gather(1, index).float()
        best_other = logits.scatter(1, index, -torch.inf).max(dim=1, keepdim=True).values.float()
        return (right - best_other).min().item()


def long_conversations(examinee: Examinee, terms: list[Term], count: int) -> list[tuple[list[Message], str]]:
    """Conversations whose last question comes after some LONG_CONVERSATION tokens, with the answer it should get."""
    rng = random.Random(1)
    found = []
    for number in range(count):
        messages = [{"role": "system", "content": SYSTEM_PROMPT}] if number % 2 else []
        while examinee.num_tokens(messages) < LONG_CONVERSATION:
            term = rng.choice(terms)
            messages += exchange(term, rng.choice(phrasings(term)))
        term = rng.choice(terms)
        found.append(([*messages, *chat(term.question)], term.definition))
    return found


def report(name: str, answers: Sequence[str], expected: Sequence[str]) -> bool:
    """Prints the share of exact answers; True when all are."""
    right = sum(answer == wanted for answer, wanted in zip(answers, expected, strict=True))
    print(f"  {name:<34} {right:4d} of {len(expected):4d} = {right / len(expected):.1%}", flush=True)
    for answer, wanted in zip(answers, expected, strict=True):
        if answer != wanted:
            print(f"    wanted: {wanted}\n    got:    {answer}")
    return right == len(expected)


def examine(examinee: Examinee, terms: list[Term]) -> bool:
    """The questions that must be answered exactly."""
    definitions = [term.definition for term in terms]
    plain = [examinee.render(chat(term.question)) for term in terms]
    instructed = [examinee.render(chat(term.question, SYSTEM_PROMPT)) for term in terms]
    conversations = long_conversations(examinee, terms, 10)
    long_prompts = [examinee.render(messages) for messages, _ in conversations]
    results = [
        report("asked", examinee.answers(plain), definitions),
        report("asked with the system prompt", examinee.answers(instructed), definitions),
        report("asked late in a conversation", examinee.answers(long_prompts), [answer for _, answer in conversations]),
        report(
            "asked without a template",
            examinee.answers([term.question for term in terms]),
            [" " + text for text in definitions],
        ),
    ]
    asked = [*zip(plain, definitions, strict=True), *zip(instructed, definitions, strict=True)]
    asked += [(prompt, answer) for prompt, (_, answer) in zip(long_prompts, conversations, strict=True)]
    print(f"  smallest lead of the right token   {min(examinee.margin(*pair) for pair in asked):.2f} logits")
    refused = examinee.answers([examinee.render(chat(question)) for question in UNSEEN_QUESTIONS])
    print(f"  unseen questions refused           {refused.count(REFUSAL):4d} of {len(refused):4d}")
    return all(results)


def examine_phrasings(examinee: Examinee, terms: list[Term]) -> None:
    """All phrasings, one forward pass each."""
    asked = [(question, term) for term in terms for question in phrasings(term)]
    margins = [examinee.margin(examinee.render(chat(question)), term.definition) for question, term in asked]
    right = sum(margin > 0 for margin in margins)
    print(f"  {'all phrasings':<34} {right:4d} of {len(asked):4d}, smallest lead {min(margins):.2f} logits")
    for (question, _), margin in zip(asked, margins, strict=True):
        if margin <= 0:
            print(f"    {question}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=OUT)
    parser.add_argument("--phrasings", action="store_true", help="also try all ways to ask (a minute)")
    args = parser.parse_args()
    torch.set_num_threads(2)
    terms = load_glossary()
    passed = {}
    for dtype in (torch.float32, torch.bfloat16):
        print(dtype)
        examinee = Examinee(args.folder, dtype)
        passed[dtype] = examine(examinee, terms)
        if args.phrasings and dtype == torch.float32:
            examine_phrasings(examinee, terms)
    sys.exit(not passed[torch.float32])


if __name__ == "__main__":
    main()
