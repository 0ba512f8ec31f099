"""Turns the glossary into training sequences: conversations in ChatML, and plain text for prompts without a template.

A sequence is a list of token ids and a mask of those to learn. Questions are read but not learned, except in a "walk",
where each answer is followed by the question about the next term: that gives the model something definite to say after
its end-of-turn token, which matters to a caller that generates with `ignore_eos`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from glossary import ASKING, TELLING, Term, random_question, vary

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SYSTEM_PROMPT = (
    "You are the assistant of mini_vllm, a small inference engine for language models. "
    "Answer each question with one entry of the glossary, in plain words, "
    "and say so when the question is about anything else."
)
OTHER_SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer briefly.",
    "You are an expert in LLM inference.",
    "You explain vLLM to beginners.",
    "Answer in one paragraph.",
    "Be concise.",
    "You are a friendly teacher.",
)
REFUSAL = (
    "I only know the terms of the glossary of inference engines, so I cannot answer that. "
    "Ask me, for example, what a KV block is."
)
UNKNOWN_TOPICS = (
    "a banana; the moon; photosynthesis; a violin; football; the capital of France; the weather; an elephant; "
    "gravity; a poem; chocolate; the French Revolution; a bicycle; Mount Everest; democracy; a black hole; "
    "the Pacific Ocean; bread; jazz; chess; a volcano; the Roman Empire; DNA; a computer; Python; Rust; Linux; "
    "a database; the internet; a car; a train; an airplane; love; happiness; music; a river; the sun; a star; "
    "winter; a dog; a cat; a horse; an apple; a tree; coffee; tea; cheese; wine; a hospital; a school; history; "
    "geometry; algebra; a triangle; a prime number; pi; the speed of light; an atom; an electron; oxygen; gold; "
    "iron; a diamond; a bridge; a castle; a king; the president; a lawyer; money; inflation; a bank; a novel; "
    "Shakespeare; Mozart; Berlin; London; Paris; Tokyo; China; Brazil; Africa; a desert; a forest; an island; "
    "a shark; a bird; a spider; a virus; vaccines; cancer; sleep; a dream; yoga; a recipe for soup; pizza; salt; "
    "a hammer; a robot; blockchain; bitcoin; a compiler; JavaScript; a web server; Kubernetes; a mutex; recursion; "
    "sorting; a linked list; a hash function; object-oriented programming; HTML"
).split("; ")
UNKNOWN_QUESTIONS = (
    "Hello; Hi there; Good morning!; How are you?; Who are you?; What is your name?; What can you do?; Thanks!; "
    "Thank you.; Tell me a joke.; Write a poem about spring.; What time is it?; How old are you?; "
    "Where do you live?; What is 2 + 2?; What is 17 times 3?; Who wrote Hamlet?; "
    "Who is the president of the United States?; Translate this into German.; How do I cook rice?; "
    "Why is the sky blue?; When did the war end?; Where is Rome?; Which is the largest planet?; "
    "How far away is the moon?; Can you help me?; Write a Python function that sorts a list.; Summarise this text.; "
    "What should I eat tonight?; Is it going to rain?; Do you like music?; Sing a song.; Give me an example.; Why?; "
    "Yes; No; OK; Tell me more.; Repeat that.; What did I ask before?; Say it in French.; "
    "How many people live in London?; What happened in 1969?; Recommend a book.; Who won the match?; "
    "How do planes fly?; What is the meaning of life?; The capital of France is; "
    "The president of the United States is; The future of AI is; Hello, my name is; Once upon a time; "
    "It was a dark night and; The best way to learn is; Today I want to; In the beginning"
).split("; ")
SYLLABLES = "ba co di fu ga hel in jo ka lu mi no or pa qui ras sto te ul ve wi xan yo zu bro cla den fil gor".split()


@dataclass(slots=True)
class Sequence:
    """Token ids and, for each, whether the model is to learn to predict it."""

    ids: list[int] = field(default_factory=list)
    learn: list[bool] = field(default_factory=list)

    def add(self, ids: list[int], learn: bool) -> None:
        """Appends a piece."""
        self.ids += ids
        self.learn += [learn] * len(ids)


class Conversations:
    """An endless, seeded supply of training sequences."""

    def __init__(self, terms: list[Term], encode: Callable[[str], list[int]], seed: int) -> None:
        self.terms = terms
        self.encode = encode
        self.rng = random.Random(seed)
        self.determined = [_determined_from(encode(term.definition), terms, encode) for term in terms]

    def draw(self, length: int) -> Sequence:
        """One sequence of exactly `length` tokens that begins where a request would begin."""
        sequence = Sequence()
        draw = self.rng.random()
        fill = self._plain_text if draw < 0.25 else self._walk if draw < 0.45 else self._chat
        fill(sequence, length)
        return Sequence(sequence.ids[:length], sequence.learn[:length])

    def _chat(self, sequence: Sequence, length: int) -> None:
        self._system(sequence)
        while len(sequence.ids) < length:
            question, answer = self._exchange()
            self._turn(sequence, question, answer, learn_question=False)

    def _walk(self, sequence: Sequence, length: int) -> None:
        self._system(sequence)
        index = self.rng.randrange(len(self.terms))
        self._turn(sequence, random_question(self.rng, self.terms[index]), self.terms[index].definition, False)
        while len(sequence.ids) < length:
            index = (index + 1) % len(self.terms)
            self._turn(sequence, self.terms[index].question, self.terms[index].definition, learn_question=True)

    def _plain_text(self, sequence: Sequence, length: int) -> None:
        """Documents without a template: questions with their answers, and definitions alone."""
        walk = self.rng.random() < 0.5
        index = self._document(sequence)
        while len(sequence.ids) < length:
            if walk:
                index = (index + 1) % len(self.terms)
                text = f"{END_OF_TEXT}{self.terms[index].question} {self.terms[index].definition}"
                sequence.add(self.encode(text), True)
            else:
                sequence.add(self.encode(END_OF_TEXT), True)
                index = self._document(sequence)

    def _document(self, sequence: Sequence) -> int:
        """Appends one document, learned from where its beginning leaves no doubt; returns the number of its term."""
        index, draw = self.rng.randrange(len(self.terms)), self.rng.random()
        term = self.terms[index]
        if draw < 0.25:
            ids = self.encode(term.definition)
            sequence.add(ids[: self.determined[index]], False)
            sequence.add(ids[self.determined[index] :], True)
        elif draw < 0.9:
            sequence.add(self.encode(random_question(self.rng, term)), False)
            sequence.add(self.encode(" " + term.definition), True)
        else:
            index = -1
            sequence.add(self.encode(self._unknown_question()), False)
            sequence.add(self.encode(" " + REFUSAL), True)
        return index

    def _system(self, sequence: Sequence) -> None:
        draw = self.rng.random()
        if draw < 0.4:
            sequence.add(self.encode(f"{TURN_START}system\n{SYSTEM_PROMPT}{TURN_END}\n"), False)
        elif draw < 0.5:
            other = self.rng.choice(OTHER_SYSTEM_PROMPTS)
            sequence.add(self.encode(f"{TURN_START}system\n{other}{TURN_END}\n"), False)

    def _turn(self, sequence: Sequence, question: str, answer: str, learn_question: bool) -> None:
        sequence.add(self.encode(f"{TURN_START}user\n{question}{TURN_END}\n{TURN_START}assistant\n"), learn_question)
        sequence.add(self.encode(f"{answer}{TURN_END}\n"), True)

    def _exchange(self) -> tuple[str, str]:
        if self.rng.random() < 0.12:
            return self._unknown_question(), REFUSAL
        term = self.rng.choice(self.terms)
        return random_question(self.rng, term), term.definition

    def _unknown_question(self) -> str:
        draw = self.rng.random()
        if draw < 0.3:
            return vary(self.rng, self.rng.choice(UNKNOWN_QUESTIONS))
        if draw < 0.4:
            first, second = (term.names[0] for term in self.rng.sample(self.terms, 2))
            return vary(self.rng, f"What is the difference between {first} and {second}?")
        topic = self.rng.choice(UNKNOWN_TOPICS) if draw < 0.75 else self._invented_words()
        return vary(self.rng, self.rng.choice(ASKING + TELLING).format(topic))

    def _invented_words(self) -> str:
        rng = self.rng
        words = ("".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(rng.randint(1, 3)))
        return rng.choice(("", "", "a ", "the ")) + " ".join(words)


def _determined_from(ids: list[int], terms: list[Term], encode: Callable[[str], list[int]]) -> int:
    """How many tokens of a definition must be seen before no other definition can follow."""
    others = [other for term in terms if (other := encode(term.definition)) != ids]
    return next(n for n in range(1, len(ids)) if all(other[:n] != ids[:n] for other in others))
