"""From a script to the bytes of its answer, packet by packet."""

from dataclasses import dataclass
from typing import Final

import msgspec

from netgain.lab.scripted_server.script import (
    Event,
    EventKind,
    Script,
    UsageMode,
    events_of,
)

_encode: Final = msgspec.json.encode
_LOGPROB: Final = -0.5


class StreamOptions(msgspec.Struct, frozen=True):
    """What a client asks of a stream beside its text."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Asked(msgspec.Struct, frozen=True):
    """The fields of a request's body that matter here."""

    script: str | Script | None = None
    prompt: str | list[object] | None = None
    messages: list[dict[str, object]] | None = None
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None

    @property
    def limit(self) -> int | None:
        """Tokens the answer may have."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def last_text(self) -> str:
        """What the user said last."""
        if self.messages:
            return str(self.messages[-1].get("content", ""))
        return self.prompt if isinstance(self.prompt, str) else ""

    @property
    def prompt_tokens(self) -> int:
        """Words of the texts, or ids."""
        if self.messages is not None:
            return sum(len(_text_of(message).split()) for message in self.messages)
        if isinstance(self.prompt, str):
            return len(self.prompt.split())
        return len(self.prompt or ())


@dataclass(frozen=True, slots=True)
class Packet:
    """Bytes written together, `after_s` after those before, and the events they complete."""

    after_s: float
    data: bytes
    completes: tuple[tuple[EventKind, int], ...]


class Renderer:
    """Renders one request's answer."""

    def __init__(self, script: Script, asked: Asked, chat: bool, id_: str, model: str) -> None:
        self._script = script
        self._asked = asked
        self._chat = chat
        self._new_line = b"\r\n" if script.crlf else b"\n"
        options = asked.stream_options or StreamOptions()
        match script.usage:
            case UsageMode.ASKED:
                self._running = options.continuous_usage_stats
                self._final = options.include_usage
            case mode:
                self._running = mode is UsageMode.RUNNING
                self._final = mode is not UsageMode.NEVER
        kind = "chat.completion" if chat else "text_completion"
        if chat and asked.stream:
            kind += ".chunk"
        opening = _encode({"id": id_, "object": kind, "created": 1, "model": model})
        self._opening = opening[:-1] + b',"choices":['

    @property
    def events(self) -> list[Event]:
        """The answer's events."""
        return events_of(self._script, self._chat, self._asked.limit, self._final)

    def packets(self) -> list[Packet]:
        """A stream's packets."""
        packets: list[Packet] = []
        after_s, data = 0.0, b""
        completes: list[tuple[EventKind, int]] = []
        tokens = 0
        for event in self.events:
            if event.after_s > 0 and data:
                packets.append(Packet(after_s, data, tuple(completes)))
                data, completes, after_s = b"", [], 0.0
            after_s += event.after_s
            tokens += event.carried
            rendered = self._event(event, tokens)
            if event.cut_at is not None:
                data += rendered[: event.cut_at]
                packets.append(Packet(after_s, data, tuple(completes)))
                data, completes, after_s = rendered[event.cut_at :], [], event.cut_s
            else:
                data += rendered
            completes.append((event.kind, event.carried))
        if data:
            packets.append(Packet(after_s, data, tuple(completes)))
        return packets

    def whole(self) -> bytes:
        """The answer that is not streamed."""
        content = self._texts(EventKind.CONTENT)
        reasoning = self._texts(EventKind.REASONING)
        events = self.events
        tokens = sum(event.carried for event in events)
        choice: dict[str, object] = {"index": 0, "finish_reason": self._script.finish_reason}
        if self._chat:
            message: dict[str, object] = {"role": "assistant", "content": content}
            if reasoning:
                message["reasoning_content"] = reasoning
            calls = [e.text or "{}" for e in events if e.kind is EventKind.TOOL_CALL]
            if calls:
                message["tool_calls"] = [_tool_call(n, call) for n, call in enumerate(calls)]
            choice["message"] = message
        else:
            choice["text"] = content
        choice["logprobs"] = self._logprobs(tokens) if self._script.logprobs else None
        usage = b"" if self._script.usage is UsageMode.NEVER else self._usage(tokens)
        return self._opening + _encode(choice) + b"]" + usage + b"}"

    def _texts(self, kind: EventKind) -> str:
        return "".join(self._text(event) for event in self.events if event.kind is kind)

    def _text(self, event: Event) -> str:
        return self._script.word * event.tokens if event.text is None else event.text

    def _event(self, event: Event, tokens: int) -> bytes:
        end = self._new_line
        match event.kind:
            case EventKind.RAW:
                return (event.text or "").encode()
            case EventKind.COMMENT:
                return b": " + (event.text or "ping").encode() + end + end
            case EventKind.DONE:
                return b"data: [DONE]" + end + end
            case EventKind.ERROR:
                data = error_body(event.text or self._script.message, 500)
            case EventKind.USAGE:
                data = self._opening + b"]" + self._usage(tokens) + b"}"
            case _:
                data = self._choice(event, tokens)
        return b"data: " + data + end + end

    def _choice(self, event: Event, tokens: int) -> bytes:
        text = self._text(event)
        reason = event.finish_reason
        if event.kind is EventKind.FINISH:
            reason = reason or self._script.finish_reason
        choice: dict[str, object] = {"index": 0}
        if self._chat:
            choice["delta"] = self._delta(event.kind, text)
        else:
            choice["text"] = text if event.kind is EventKind.CONTENT else ""
        counted = self._script.logprobs and event.carried > 0
        choice["logprobs"] = self._logprobs(event.carried) if counted else None
        choice["finish_reason"] = reason
        usage = self._usage(tokens) if self._running else b""
        return self._opening + _encode(choice) + b"]" + usage + b"}"

    @staticmethod
    def _delta(kind: EventKind, text: str) -> dict[str, object]:
        match kind:
            case EventKind.ROLE:
                return {"role": "assistant", "content": ""}
            case EventKind.CONTENT:
                return {"content": text}
            case EventKind.REASONING:
                return {"reasoning_content": text}
            case EventKind.TOOL_CALL:
                return {"tool_calls": [_tool_call(0, text)]}
            case EventKind.EMPTY:
                return {"content": ""}
            case _:
                return {}

    def _logprobs(self, tokens: int) -> dict[str, object]:
        text = self._script.word
        if self._chat:
            entry = {"token": text, "logprob": _LOGPROB, "bytes": None, "top_logprobs": []}
            return {"content": [entry] * tokens}
        return {
            "tokens": [text] * tokens,
            "token_logprobs": [_LOGPROB] * tokens,
            "top_logprobs": None,
            "text_offset": [0] * tokens,
        }

    def _usage(self, tokens: int) -> bytes:
        prompt = self._asked.prompt_tokens
        completion = tokens + self._script.usage_error
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        if self._script.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self._script.cached_tokens}
        if self._script.reasoning_tokens:
            details = {"reasoning_tokens": self._script.reasoning_tokens}
            usage["completion_tokens_details"] = details
        return b',"usage":' + _encode(usage)


def error_body(message: str, status: int) -> bytes:
    """An error in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


def _text_of(message: dict[str, object]) -> str:
    """A message's text, be it one string or, as some clients send it, parts."""
    content = message.get("content")
    if not isinstance(content, list):
        return str(content or "")
    parts = [part for part in content if isinstance(part, dict)]
    return " ".join(str(part.get("text", "")) for part in parts)


def _tool_call(index: int, arguments: str) -> dict[str, object]:
    function = {"name": "look_up", "arguments": arguments}
    return {"index": index, "id": f"call-{index}", "type": "function", "function": function}
