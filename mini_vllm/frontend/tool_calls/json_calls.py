"""Calls as JSON that no tag ends: one object behind the other, or a list of them.

    {"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}       Llama 3.1
    [{"name": "f", "arguments": {"a": 1}}]                                       xLAM

They may stand among text, or behind <|python_tag|>. Source: llama_tool_parser.py and
xlam_tool_parser.py in vllm/tool_parsers.
"""

from typing import Any

from mini_vllm.frontend.tool_calls.hermes import SPACE, AssistantDelta, HermesParser

PYTHON_TAG = "<|python_tag|>"
BETWEEN_CALLS = SPACE | frozenset("[],;")


class JsonCallParser(HermesParser):
    """Parses calls in JSON.

    names: of the tools, since no tag says that an object is a call. is_forced: a grammar has forced
    the form, a list of calls. Then nothing is malformed, and arguments are given out as they come.
    """

    begins = "{["  # where a call may begin among text

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._begin, self._state = PYTHON_TAG, self._wait
        self._names, self._is_forced = form.names, form.calls == "json"
        self._is_list = False
        self._arguments: list[str] = []  # of the call that is being read: what is new
        self.is_given = False  # that call, in part

    def feed(self, text: str) -> AssistantDelta:
        self._go_on(text)
        self._give_arguments()
        return super().feed("")

    def finish(self, text: str = "") -> AssistantDelta:
        self._go_on(text)
        if self._is_forced or (self._is_behind_call and self._state == self._wait):
            return self.feed("")
        return super().finish()

    def _text(self, character: str) -> None:
        if character not in self.begins:
            super()._text(character)
            return
        for each in self._held:
            self._say(each)
        self._enter(self._wait, character)

    def _wait(self, character: str) -> None:
        if character == "]" and self._is_list and self._is_behind_call:
            self._raw, self._is_list = [], False
            self._enter(self._text)
        elif character in BETWEEN_CALLS:
            self._is_list = self._is_list or character == "["
            self._raw.append(character)
        else:
            super()._wait(character)

    def _read(self, character: str) -> None:
        was_deep = self._object.depth > 1
        super()._read(character)
        if self._state == self._close:
            if self._is_known(self._object.as_call()[0]):
                self._accept()
            else:
                self._refuse("")
        elif self._state == self._read and self._is_forced and (was_deep or self._object.depth > 1):
            if not self.is_given:
                self.is_given = True
                self._give(self._object.as_call()[0], "")
            self._arguments.append(character)
            self._raw = []

    def _is_known(self, name: str) -> bool:
        return self._is_forced or name in self._names

    def _is_call(self) -> bool:
        # Python reads less than JSON has: 1e999, 5,000 digits
        return self.is_given or super()._is_call()

    def _refuse(self, character: str) -> None:
        self._is_list = False
        super()._refuse(character)

    def _accept(self) -> None:
        if self.is_given:
            self._give_arguments()
        else:
            self._give(*self._object.as_call())
        self.is_given, self._raw = False, []
        self._enter(self._wait)

    def _give_arguments(self) -> None:
        """Give out what is new of a call whose first part is out."""
        if self._arguments:
            if not self._calls:
                self._calls.append({"index": self._num_calls - 1, "function": {"arguments": ""}})
            self._calls[-1]["function"]["arguments"] += "".join(self._arguments)
            self._arguments = []
