"""A chat template gives what transformers gives, within its limits, and nothing of it outlives its
caller.
"""

import copy
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from mini_vllm.errors import (
    ChatTemplateError,
    RequestRefusedError,
    TokenizerMissingError,
    UnknownParameterError,
)
from mini_vllm.frontend.chat_template import ChatTemplateRenderer, as_conversations, check_messages
from mini_vllm.structured.sandbox.child_process import LENGTH

transformers = pytest.importorskip("transformers")

TINY = Path(__file__).parents[1] / "models" / "tiny"
ASK = [{"role": "user", "content": "What is a KV block?"}]
TALK = [
    {"role": "system", "content": "Be brief. <>&'\" é日👍"},
    *ASK,
    {"role": "assistant", "content": " A piece. "},
    *ASK,
]
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {}},
    },
}
CALLS = [
    *ASK,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1.5}}}],
    },
    {"role": "tool", "content": "2", "name": "add"},
]
TEMPLATES = {
    "of the model": None,
    "chatml": """
{% for m in messages %}
  <|im_start|>{{ m.role }}
{{ m['content'] }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
""",
    "llama": """
{{ bos_token }}{% for m in messages %}{% if loop.first %}[{% endif %}{{ m.content | trim }}{{ eos_token }}
{%- if not loop.last %}{% continue %}{% endif %}]{% endfor %}""",
    "tools": """
{% if tools %}{{ tools | tojson }}|{{ tools | tojson(indent=2) }}{% for t in tools %}{{ t.function.name }}{% endfor %}
{% endif %}{% for m in messages %}{{ m | tojson }}{% endfor %}""",
    "generation": """
{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}
{% else %}{{ m.content }}{% endif %}{% endfor %}""",
    "namespace": """
{% set ns = namespace(n=0, self=1) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ ns.self }}
{{ dict(a=1) }}{{ dict.fromkeys(['x']) }}""",
    "defined": """
{{ documents is none }}{{ tools is none }}{{ thinking is defined }}{{ enable_thinking }}{{ nothing }}{{ 2 ** 70 }}
{{ messages[-1].reasoning_content }}{{ messages | length }}{{ lipsum.__globals__ }}{{ 1 / 3 }}{{ messages[0] }}""",
    "macro": """
{% macro turn(m) %}{{ m.role | upper }}:{{ m.content }};{% endmacro %}
{%- for m in messages -%} {{ turn(m) }} {%- endfor %}
""",
}
by_template = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES.keys())


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(TINY)


@pytest.fixture(scope="module")
def renderer(tokenizer):
    """With patience: what is to be refused for another reason is not refused because the machine is
    slow.
    """
    renderer = ChatTemplateRenderer(tokenizer, max_seconds=60, max_memory_bytes=256 << 20)
    yield renderer
    renderer.close()


# --- what transformers gives ----------------------------------------------------------------------


@by_template
@pytest.mark.parametrize(
    "messages", [ASK, TALK, [{**ASK[0], "thinking": "why", "x": None}]], ids=["ask", "talk", "more"]
)
@pytest.mark.parametrize(
    "options",
    [
        {"add_generation_prompt": True},
        {"add_generation_prompt": False},
        {
            "add_generation_prompt": True,
            "tools": [TOOL],
            "documents": [{"title": "é", "text": "日"}],
        },
        {
            "add_generation_prompt": True,
            "enable_thinking": False,
            "thinking": "x",
            "bos_token": "<s>",
        },
    ],
)
def test_the_text_is_that_of_transformers(renderer, tokenizer, template, messages, options):
    before = copy.deepcopy(messages)
    theirs = tokenizer.apply_chat_template(
        messages, chat_template=template, tokenize=False, **options
    )
    assert renderer.render(messages, chat_template=template, **options) == theirs
    assert messages == before


def test_calls_of_tools_and_functions_as_tools(renderer, tokenizer):
    def add(a: int, b: int = 2) -> int:
        """
        Adds.

        Args:
            a: One number.
            b: Another.
        """
        return a + b

    for tools in (None, [add], [TOOL, add]):
        options = {"chat_template": TEMPLATES["tools"], "tools": tools}
        theirs = tokenizer.apply_chat_template(
            CALLS, tokenize=False, add_generation_prompt=True, **options
        )
        assert renderer.render(CALLS, **options) == theirs


@pytest.mark.parametrize("arguments", ['{"a":' * 5000 + "1" + "}" * 5000, '{"a"', "[1]", ""])
def test_arguments_that_are_no_object_are_shown_as_they_are(renderer, arguments):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    text = renderer.render(
        messages, chat_template="{{ messages[0].tool_calls[0].function.arguments }}"
    )
    assert text == (arguments or "{}")


def test_the_final_message_is_continued(renderer, tokenizer):
    options = {"add_generation_prompt": False, "continue_final_message": True}
    for template in (None, TEMPLATES["chatml"], TEMPLATES["llama"]):
        for content in ("It is", "It is ", " It\n"):
            messages = [*ASK, {"role": "assistant", "content": content}]
            theirs = tokenizer.apply_chat_template(
                messages, chat_template=template, tokenize=False, **options
            )
            assert renderer.render(messages, chat_template=template, **options) == theirs


def test_one_of_several_templates_by_its_name(tokenizer):
    several = copy.copy(tokenizer)
    several.chat_template = {"default": "d{{ messages[0].content }}", "tool_use": "t", "rag": "r"}
    renderer = ChatTemplateRenderer(several)
    assert renderer.render(ASK) == "dWhat is a KV block?"
    assert renderer.render(ASK, tools=[TOOL]) == "t"
    assert renderer.render(ASK, chat_template="rag") == "r"
    renderer.close()


def test_one_conversation_or_several():
    assert as_conversations(ASK) == [ASK]
    assert as_conversations([ASK, TALK]) == [ASK, TALK]
    assert as_conversations([]) == []


# --- limits ---------------------------------------------------------------------------------------

ENDLESS = {
    "two loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "one long operation": "{{ 7 ** (2 * 10**8) % 3 }}",
}
HOSTILE = {
    "a long string": ("{{ 'a' * 10**10 }}", "bytes of memory"),
    "a string by a format": ("{{ '%9999999999d' % 1 }}", "bytes of memory"),
    "a text above the "
    "limit": ("{{ 'a' * 10**7 }}", "makes a text of 10000000 characters, the limit is 8388608"),
    "a growing list": (
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "bytes of memory",
    ),
    "a macro that calls "
    "itself": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself too deeply"),
    "brackets": ("{{ " + "(" * 99999 + ")" * 99999 + "}}", "calls itself too deeply|SyntaxError"),
    "globals": ("{{ lipsum.__globals__.os.system('true') }}", "UndefinedError|SecurityError"),
    "classes": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
    "changing what it was given": ("{{ messages.append(1) }}", "SecurityError"),
    "syntax": ("{% if %}", "TemplateSyntaxError"),
    "its own no": ("{{ raise_exception('only users') }}", "TemplateError: only users"),
    "a long no": ("{{ raise_exception('no' * 10**6) }}", "TemplateError: nono"),
    "undefined": ("{{ nothing.nowhere }}", "UndefinedError: 'nothing' is undefined"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError"),
    "a lone surrogate": ("{{ '\\ud800' }}", "lone surrogate"),
    "not a string": (7, "chat_template must be None or a string, got 7"),
    "too long": ("x" * (9 << 20), "the limit is 8388608"),
}  # fmt: skip


@pytest.mark.parametrize(("template", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_template_is_refused_by_name_and_the_next_one_works(renderer, template, message):
    with pytest.raises(RequestRefusedError, match=message) as refusal:
        renderer.render(ASK, chat_template=template)
    assert len(str(refusal.value)) < 400
    assert renderer.render(ASK, chat_template="{{ messages[0].content }}") == "What is a KV block?"


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.slow
def test_a_template_without_an_end_is_refused_by_its_time_and_the_next_one_works(
    tokenizer, template
):
    renderer = ChatTemplateRenderer(tokenizer, max_seconds=0.3)
    with pytest.raises(ChatTemplateError, match=r"the chat template takes more than 0\.3 seconds"):
        renderer.render(ASK, chat_template=template)
    assert renderer.render(ASK, chat_template="{{ messages[0].content }}") == "What is a KV block?"
    renderer.close()


@pytest.mark.parametrize(
    ("wall_times", "work", "ended_by"),
    [(10**6, "sum(iter(int, 1))", signal.SIGPROF), (20, "time.sleep(300)", signal.SIGALRM)],
    ids=["works", "sleeps"],
)
def test_a_process_is_ended_by_the_processors_clock_and_by_the_one_on_the_wall_if_it_sleeps(
    wall_times, work, ended_by
):
    program = f"""
        import time
        from mini_vllm.frontend import template_worker
        from mini_vllm.structured.sandbox import child_process
        child_process.WALL_TIMES = {wall_times}
        template_worker.render = lambda *question: {work}
        template_worker.main()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "0.01", str(1 << 40)]
    ended = subprocess.run(command, input=LENGTH.pack(2) + b"{}", timeout=60, check=False)
    assert ended.returncode == -ended_by


class Strange:
    def __repr__(self):
        raise RuntimeError


BAD_MESSAGES = {
    "none": (None, "messages must be a list"),
    "text": ("hello", "messages must be a list"),
    "a mapping": (ASK[0], "messages must be a list"),
    "an iterator": (iter(ASK), "messages must be a list"),
    "nobody": ([], "at least one mapping"),
    "a message that is text": (["hello"], r"messages\[0\] must be a mapping, got 'hello'"),
    "a message that is None": ([*ASK, None], r"messages\[1\] must be a mapping, got None"),
    "a message that is strange": ([Strange()], r"messages\[0\] must be a mapping, got <"),
    "no role": ([{"content": "x"}], "role must be a string, got None"),
    "a role of bytes": ([{"role": b"user", "content": "x"}], "role must be a string, got b'user'"),
    "a list of roles": ([{"role": ["user"], "content": "x"}], "role must be a string"),
    "no content": (
        [{"role": "user"}],
        r"messages\[0\]: content must be a string or a list of parts, got None",
    ),
    "content None": (
        [{"role": "user", "content": None}],
        "content must be a string or a list of parts, got None",
    ),
    "content of bytes": (
        [{"role": "user", "content": b"x"}],
        "content must be a string or a list of parts, got b'x'",
    ),
    "a number": (
        [{"role": "user", "content": 7}],
        "content must be a string or a list of parts, got 7",
    ),
    "parts that are none": (
        [{"role": "user", "content": ["x"]}],
        "content must be a string or a list of parts",
    ),
    "a picture": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        "may have parts of text alone, like .* got {.*'type': 'image_url'",
    ),
    "a part without its text": (
        [{"role": "user", "content": [{"type": "text"}]}],
        "may have parts of text alone",
    ),
    "10 MB": ([{"role": "user", "content": "x" * 10**7}], "the limit is 8388608"),
    "a lone surrogate": (
        [{"role": "user", "content": "x\ud800"}],
        "lone surrogate '.ud800' at index 1",
    ),
    "a lone surrogate elsewhere": ([{**ASK[0], "name": "\ud800"}], "must be JSON"),
    "a set": ([{**ASK[0], "name": {1}}], r"must be JSON: \{1\} is no JSON"),
    "a key of bytes": ([{**ASK[0], b"x": 1}], "must be JSON"),
}


@pytest.mark.parametrize(("messages", "message"), BAD_MESSAGES.values(), ids=BAD_MESSAGES.keys())
def test_malformed_messages_are_refused_by_name(renderer, messages, message):
    with pytest.raises(RequestRefusedError, match=message) as refusal:
        [renderer.render(each) for each in as_conversations(messages) or [[]]]
    assert len(str(refusal.value)) < 500


def test_a_conversation_without_an_end_is_refused(renderer):
    messages = [{"role": "user", "content": "x", "me": []}]
    messages[0]["me"].append(messages)
    with pytest.raises(ChatTemplateError, match="must be JSON"):
        renderer.render(messages)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"add_generation_prompt": "yes"},
            ChatTemplateError,
            "add_generation_prompt must be True or False, got 'yes'",
        ),
        (
            {"continue_final_message": 1},
            ChatTemplateError,
            "continue_final_message must be True or False, got 1",
        ),
        (
            {"continue_final_message": True},
            ChatTemplateError,
            "must not be given with add_generation_prompt",
        ),
        ({"tools": "add"}, ChatTemplateError, "tools must be None or a list, got 'add'"),
        ({"tools": [7]}, ChatTemplateError, "tools must hold JSON schemas or functions, got 7"),
        ({"tools": [lambda x: x]}, ChatTemplateError, "tools: <function"),
        ({"documents": {1}}, ChatTemplateError, "must be JSON"),
        ({"extra": Strange()}, ChatTemplateError, "must be JSON"),
        ({"sanitize_control_tokens": True}, UnknownParameterError, "sanitize_control_tokens"),
        ({"tokenize": False}, UnknownParameterError, "tokenize"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_by_name(renderer, options, error, message):
    with pytest.raises(error, match=message):
        renderer.render(ASK, **options)


def test_without_a_template_there_is_no_chat(tokenizer):
    with pytest.raises(TokenizerMissingError, match="no chat template"):
        ChatTemplateRenderer(None).render(ASK)


# --- the process ----------------------------------------------------------------------------------


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def wait_for_the_end_of(pid):
    """By the clock on the wall it comes within 10 seconds, however busy the machine is."""
    for _ in range(6000):
        if not is_alive(pid):
            return
        time.sleep(0.01)
    pytest.fail("the process is still there")


@pytest.mark.slow
def test_the_process_starts_with_the_first_conversation_and_ends_with_its_owner(tokenizer):
    renderer = ChatTemplateRenderer(tokenizer)
    assert renderer._processes._all == []
    renderer.render(ASK)
    pid = renderer._processes._all[0]._process.pid
    renderer.render(TALK)
    assert renderer._processes._all[0]._process.pid == pid
    renderer.close()
    assert not is_alive(pid)
    renderer.render(ASK)
    pid = renderer._processes._all[0]._process.pid
    del renderer
    gc.collect()
    assert not is_alive(pid)


@pytest.mark.slow
def test_a_process_that_was_killed_is_started_again(tokenizer):
    renderer = ChatTemplateRenderer(tokenizer)
    renderer.render(ASK)
    os.kill(renderer._processes._all[0]._process.pid, signal.SIGKILL)
    renderer._processes._all[0]._process.wait()
    assert renderer.render(ASK)
    renderer.close()


@pytest.mark.parametrize("end", ["raise SystemExit", "os.kill(os.getpid(), signal.SIGKILL)"])
@pytest.mark.parametrize("template", [None, ENDLESS["two loops"]], ids=["idle", "busy"])
@pytest.mark.slow
def test_the_process_ends_with_the_one_that_started_it(end, template):
    """Also one that is killed, and also in the middle of a template."""
    program = f"""
        import os, signal, sys, threading, time
        from types import SimpleNamespace
        from mini_vllm.frontend.chat_template import ChatTemplateRenderer
        tokenizer = SimpleNamespace(chat_template="x", special_tokens_map={{}}, get_chat_template=lambda t, _: t or "x")
        renderer = ChatTemplateRenderer(tokenizer, max_seconds=0.5)
        ask = {ASK!r}
        renderer.render(ask)
        print(renderer._processes._all[0]._process.pid, flush=True)
        threading.Thread(target=lambda: renderer.render(ask, chat_template={template!r}), daemon=True).start()
        time.sleep(0.3)
        {end}
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    wait_for_the_end_of(int(done.stdout))


@pytest.mark.parametrize("text_of_part", [{"type": "text", "text": "b"}, {"text": "b"}])
def test_parts_of_text_are_lines(text_of_part) -> None:
    parts = [{"type": "text", "text": "a"}, text_of_part]
    (message,) = check_messages([{"role": "user", "content": parts}])
    assert message == {"role": "user", "content": "a\nb"}
    assert isinstance(parts, list)
