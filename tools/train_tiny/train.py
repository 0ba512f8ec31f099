"""Trains the tiny model that is bundled with mini_vllm: a small Qwen3 that recites docs/glossary.md.

Run from anywhere: `python tools/train_tiny/train.py`. Seeded: the same machine and versions give the same weights.

With --draft it trains the smaller model that drafts for the tiny one, and has the same tokenizer. The tiny one is its
teacher: it learns what that says. Run it again after the tiny model has been trained.
"""

import argparse
import json
import math
import random
import time
from pathlib import Path

import torch
from conversations import (
    END_OF_TEXT,
    OTHER_SYSTEM_PROMPTS,
    REFUSAL,
    SYSTEM_PROMPT,
    TURN_END,
    TURN_START,
    Conversations,
    Sequence,
)
from glossary import Term, load_glossary, phrasings
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import Qwen3Config, Qwen3ForCausalLM

OUT = Path(__file__).resolve().parents[2] / "mini_vllm" / "models" / "tiny"
DRAFT_OUT = OUT.with_name("tiny-draft")
VOCAB_SIZE = 2048
SHAPES = ((16, 192), (6, 512), (3, 1024), (2, 2048))  # (sequences, tokens of each)
SHAPE_WEIGHTS = ((1, 0, 0, 0), (0.75, 0.1, 0.1, 0.05))  # in the first half of the steps, and in the second
PEAK_LEARNING_RATE = 3e-3
WARM_UP_STEPS = 100
MARGIN = 4.0  # logits by which the right token must lead before its loss vanishes: keeps bf16 from changing an argmax
CHAT_TEMPLATE = (
    "{%- if tools -%}"
    "{{- '<|im_start|>system\\n' -}}"
    "{%- if messages[0].role == 'system' -%}{{- messages[0].content + '\\n\\n' -}}{%- endif -%}"
    "{{- 'These are the tools, one for each line.\\n<tools>\\n' -}}"
    "{%- for tool in tools -%}{{- tool | tojson + '\\n' -}}{%- endfor -%}"
    '{{- \'</tools>\\nA call of a tool is <tool_call>{"name": ..., "arguments": {...}}</tool_call><|im_end|>\\n\' -}}'
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role not in ('system', 'user', 'assistant', 'tool') -%}"
    "{{- raise_exception('unknown role: ' + message.role) -}}"
    "{%- endif -%}"
    "{%- if not (tools and loop.first and message.role == 'system') -%}"
    "{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.role == 'tool' -%}{{- '<tool_response>' -}}{%- endif -%}"
    "{{- message.content or '' -}}"
    "{%- if message.role == 'tool' -%}{{- '</tool_response>' -}}{%- endif -%}"
    "{%- for call in message.tool_calls or [] -%}"
    "{%- set called = call.function or call -%}"
    "{{- '<tool_call>{\"name\": ' + called.name | tojson + ', \"arguments\": ' -}}"
    "{{- (called.arguments if called.arguments is string else called.arguments | tojson) + '}</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def train_tokenizer(terms: list[Term]) -> Tokenizer:
    """A byte-level BPE tokenizer of the glossary and of the questions about it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [term.definition for term in terms for _ in range(4)]
    texts += [question for term in terms for question in phrasings(term)[:8]]
    texts += [SYSTEM_PROMPT, REFUSAL, *OTHER_SYSTEM_PROMPTS, "system\nuser\nassistant\n"] * 4
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


SIZES = {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
DRAFT_SIZES = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}


def build_model(tokenizer: Tokenizer, sizes: dict[str, int]) -> Qwen3ForCausalLM:
    """The untrained model; heads x head_dim differs from hidden_size on purpose, as it does in Qwen3-0.6B."""
    config = Qwen3Config(
        architectures=["Qwen3ForCausalLM"],
        vocab_size=VOCAB_SIZE,
        **sizes,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id(TURN_END),
        pad_token_id=tokenizer.token_to_id(END_OF_TEXT),
    )
    return Qwen3ForCausalLM(config)


def learning_rate(step: int, num_steps: int) -> float:
    """Linear warm-up, then half a cosine down to one percent of the peak."""
    decay = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / num_steps))
    return PEAK_LEARNING_RATE * min(1.0, (step + 1) / WARM_UP_STEPS) * decay


def loss_on(model: Qwen3ForCausalLM, batch: list[Sequence], teacher: Qwen3ForCausalLM | None) -> torch.Tensor:
    """Mean cross entropy over the tokens to learn, each with its own logit lowered by MARGIN.

    With a teacher it is the cross entropy to the distributions of that, which ask for no lead.
    """
    ids = torch.tensor([sequence.ids for sequence in batch])
    learn = torch.tensor([sequence.learn for sequence in batch])[:, 1:]
    logits = logits_at(model, ids[:, :-1], learn)
    if teacher is not None:
        with torch.no_grad():
            said = logits_at(teacher, ids[:, :-1], learn).softmax(-1)
        return cross_entropy(logits, said)
    targets = ids[:, 1:][learn]
    logits[torch.arange(len(targets)), targets] -= MARGIN
    return cross_entropy(logits, targets)


def logits_at(model: Qwen3ForCausalLM, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The logits behind some of the tokens: [number of places, V]."""
    return model.lm_head(model.model(input_ids=ids, use_cache=False).last_hidden_state[places])


def train(
    model: Qwen3ForCausalLM,
    conversations: Conversations,
    num_steps: int,
    seed: int,
    teacher: Qwen3ForCausalLM | None = None,
) -> float:
    """Runs the optimiser; returns the moving mean of the loss."""
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    started, mean_loss, num_tokens = time.monotonic(), math.nan, 0
    for step in range(num_steps):
        num_sequences, length = rng.choices(SHAPES, SHAPE_WEIGHTS[2 * step // num_steps])[0]
        loss = loss_on(model, [conversations.draw(length + 1) for _ in range(num_sequences)], teacher)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, num_steps)
        optimizer.step()
        num_tokens += num_sequences * length
        mean_loss = loss.item() if step == 0 else 0.98 * mean_loss + 0.02 * loss.item()
        if step % 100 == 0 or step == num_steps - 1:
            seconds = time.monotonic() - started
            speed = num_tokens / seconds
            print(f"step {step:5d}  {seconds:5.0f} s  {speed:6.0f} tok/s  loss {mean_loss:.4f}", flush=True)
    return mean_loss


def save(model: Qwen3ForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    """Writes the checkpoint folder: weights in bf16, the configuration, the tokenizer."""
    out.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.detach().to(torch.bfloat16).contiguous() for name, weight in model.named_parameters()}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    model.config.dtype = torch.bfloat16
    model.config.save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"))


def save_settings(model: Qwen3ForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    """Writes what a model needs that answers by itself: how it generates, and how its conversations are written."""
    turn_end, end_of_text = tokenizer.token_to_id(TURN_END), tokenizer.token_to_id(END_OF_TEXT)
    generation = {
        "do_sample": False,
        "temperature": 0.0,
        "max_new_tokens": 256,
        "eos_token_id": [turn_end, end_of_text],
        "pad_token_id": end_of_text,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config.max_position_embeddings,
        "clean_up_tokenization_spaces": False,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": [TURN_START, TURN_END],
        "chat_template": CHAT_TEMPLATE,
    }
    for name, content in (("generation_config.json", generation), ("tokenizer_config.json", tokenizer_config)):
        (out / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", action="store_true", help="train the smaller model that drafts for the tiny one")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(args.seed)
    terms = load_glossary()
    teacher = Qwen3ForCausalLM.from_pretrained(OUT, dtype=torch.float32).eval() if args.draft else None
    tokenizer = Tokenizer.from_file(str(OUT / "tokenizer.json")) if args.draft else train_tokenizer(terms)
    model = build_model(tokenizer, DRAFT_SIZES if args.draft else SIZES)
    print(f"{len(terms)} terms, {sum(weight.numel() for weight in model.parameters()):,} parameters")
    conversations = Conversations(terms, lambda text: tokenizer.encode(text).ids, args.seed)
    loss = train(model, conversations, args.steps, args.seed, teacher)
    out = args.out or (DRAFT_OUT if args.draft else OUT)
    save(model, tokenizer, out)
    if not args.draft:
        save_settings(model, tokenizer, out)
    print(f"final loss {loss:.4f}, written to {out}")


if __name__ == "__main__":
    main()
