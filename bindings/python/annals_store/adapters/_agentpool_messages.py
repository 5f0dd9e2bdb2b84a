"""Messages of agentpool as drafts for a log, and entries of a log as messages of agentpool.

A log keeps what the Messages API has: text, thinking, calls, results, model and tokens. `extras` returns the members of
a message that its entries do not give back.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from agentpool.messaging import ChatMessage, TokenCost
from pydantic_ai import (
    BinaryContent,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RequestUsage,
    RetryPromptPart,
    RunUsage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_jsonable_python

from ..types import Entry

#: Name of the agent in sessions that other programs wrote.
CLAUDE = "claude"

#: Members that are stored elsewhere, or with the messages that they are.
_NOT_EXTRA = {"message_id", "session_id", "associated_messages"}

#: Members of model messages that are made anew whenever one is created.
_VOLATILE = {"timestamp", "run_id", "usage", "conversation_id"}

_Block = dict[str, Any]


def text_of(content: Any) -> str:
    """Returns the content of a message as text. Structured output is JSON."""
    return content if isinstance(content, str) else json.dumps(to_jsonable_python(content))


def drafts(message: ChatMessage[Any], entry_id: str, parent: str | None) -> list[dict[str, Any]]:
    """Returns the drafts of a message: a reply that called tools has one for each response and its results."""
    found: list[dict[str, Any]] = []
    for part in message.messages:
        blocks = list(_reply_blocks(part) if isinstance(part, ModelResponse) else _request_blocks(part, message.role))
        if blocks:
            found.append({"role": "assistant" if isinstance(part, ModelResponse) else "user", "content": blocks})
    if not found or found[-1]["role"] != message.role:
        found.append({"role": message.role, "content": text_of(message.content)})
    for draft in found:
        if draft["role"] == "assistant" and message.model_name:
            draft["model"] = message.model_name
    last = found[-1]
    last["id"] = entry_id
    last["timestamp"] = message.timestamp.astimezone().isoformat()
    if parent is not None:
        found[0]["parent"] = parent
    usage = message.usage
    if message.role == "assistant" and usage.has_values():
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        last["usage"] = {"input": max(usage.input_tokens - cached, 0), "output": usage.output_tokens,
                         "cache_read": usage.cache_read_tokens, "cache_write_5m": usage.cache_write_tokens}
    return found


def _reply_blocks(response: ModelResponse) -> Iterator[_Block]:
    for part in response.parts:
        match part:
            case TextPart(content=text) if text:
                yield {"type": "text", "text": text}
            case ThinkingPart(content=text) if text:
                yield {"type": "thinking", "thinking": text, "signature": part.signature or ""}
            case ToolCallPart():
                yield {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}


def _request_blocks(request: ModelRequest, role: str) -> Iterator[_Block]:
    for part in request.parts:
        match part:
            # The prompt before a reply is a message of its own.
            case UserPromptPart() if role == "user":
                given = [part.content] if isinstance(part.content, str) else part.content
                yield from filter(None, map(_prompt_block, given))
            case ToolReturnPart():
                yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}
            case RetryPromptPart(tool_name=str()):
                yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response(),
                       "is_error": True}


def _prompt_block(content: Any) -> _Block | None:
    match content:
        case str():
            return {"type": "text", "text": content} if content else None
        case ImageUrl(url=url):
            return {"type": "image", "source": {"type": "url", "url": url}}
        case BinaryContent(data=data, media_type=kind) if kind.startswith("image/"):
            encoded = base64.b64encode(data).decode()
            return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": encoded}}
    return {"type": "text", "text": json.dumps(to_jsonable_python(content))}


def group(entries: Iterable[Entry], logged: dict[str, list[str]]) -> Iterator[list[Entry]]:
    """Groups entries by message. `logged` has the entries of a message that this package logged, by its last one."""
    owner = {entry: last for last, members in logged.items() for entry in members}
    current: list[Entry] = []
    key: str | None = None
    for entry in entries:
        if entry["kind"] != "message":
            continue
        own = owner.get(entry["id"] or "") or entry.get("response")
        if current and (own is None or own != key):
            yield current
            current = []
        current.append(entry)
        key = own
    if current:
        yield current


def chat_message(entries: Sequence[Entry], session_id: str, extra: dict[str, Any]) -> ChatMessage[str]:
    """Returns the message that was logged as these entries."""
    last = entries[-1]
    role = "assistant" if last["role"] == "assistant" else "user"
    names: dict[str, str] = {}
    parts = list(_model_messages(entries, names))
    said = [block["text"] for entry in _last_response(entries) for block in entry["blocks"] if block["kind"] == "text"]
    costs = [Decimal(entry["cost_usd"]) for entry in entries if entry["cost_usd"] is not None]
    message = ChatMessage[str](
        content="\n".join(said),
        role=role,  # type: ignore[arg-type]
        message_id=extra.get("id") or last["id"] or "",
        session_id=session_id,
        parent_id=entries[0]["parent"],
        timestamp=_time(last["time"]),
        name=CLAUDE if role == "assistant" else None,
        model_name=last["model"],
        usage=_usage(entries),
        cost_info=TokenCost(total_cost=sum(costs, Decimal(0))) if costs else None,
        messages=parts,
    )
    known = {name: _load(name, value) for name, value in extra.get("members", {}).items()}
    return dataclasses.replace(message, **known)


def extras(message: ChatMessage[Any], plain: ChatMessage[str]) -> dict[str, Any]:
    """Returns the members of a message that its entries, read as `plain`, do not give back."""
    found = {}
    for field in dataclasses.fields(message):
        ours, theirs = getattr(message, field.name), getattr(plain, field.name)
        if field.name in _NOT_EXTRA or ours == theirs:
            continue
        if field.name == "messages" and _lasting(ours, message) == _lasting(theirs, message):
            continue
        found[field.name] = _dump(field.name, ours)
    return found


def _model_messages(entries: Sequence[Entry], names: dict[str, str]) -> Iterator[ModelRequest | ModelResponse]:
    """Yields what a model was sent and answered. `names` collects the tools of calls."""
    previous: tuple[str | None, str | None] | None = None
    parts: list[Any] = []
    made: list[tuple[Entry, list[Any]]] = []
    for entry in entries:
        key = (entry["role"], entry.get("response"))
        if key != previous:
            parts = []
            made.append((entry, parts))
        previous = key
        made[-1] = (entry, parts)
        parts.extend(_parts(entry, names))
    for entry, parts in made:
        if not parts:
            continue
        when = _time(entry["time"])
        if entry["role"] == "assistant":
            usage = _usage([entry])
            counts = RequestUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
                                  cache_read_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens)
            yield ModelResponse(parts=parts, usage=counts, model_name=entry["model"], timestamp=when)
        else:
            yield ModelRequest(parts=parts)


def _parts(entry: Entry, names: dict[str, str]) -> Iterator[Any]:
    when = _time(entry["time"])
    is_reply = entry["role"] == "assistant"
    for block in entry["blocks"]:
        match block["kind"]:
            case "text":
                yield TextPart(content=block["text"]) if is_reply else UserPromptPart(content=block["text"], timestamp=when)
            case "thinking":
                yield ThinkingPart(content=block["text"], signature=block.get("signature") or None)
            case "tool_use":
                names[block["id"]] = block["name"]
                yield ToolCallPart(tool_name=block["name"], args=block["input"], tool_call_id=block["id"])
            case "tool_result":
                output = "\n".join(part["text"] for part in block["output"] if part["kind"] == "text")
                name = names.get(block["call"], "")
                yield ToolReturnPart(tool_name=name, content=output, tool_call_id=block["call"], timestamp=when)


def _last_response(entries: Sequence[Entry]) -> list[Entry]:
    last = entries[-1]
    key = (last["role"], last.get("response"))
    found = []
    for entry in reversed(entries):
        if (entry["role"], entry.get("response")) != key:
            break
        found.append(entry)
    return found[::-1]


def _usage(entries: Sequence[Entry]) -> RunUsage:
    """Sums the tokens, of each response once."""
    responses: dict[str, dict[str, Any]] = {}
    for at, entry in enumerate(entries):
        if entry["usage"] is not None:
            responses[entry.get("response") or str(at)] = dict(entry["usage"])
    usage = RunUsage()
    for counts in responses.values():
        read = counts.get("cache_read", 0)
        written = counts.get("cache_write_5m", 0) + counts.get("cache_write_1h", 0)
        usage += RunUsage(input_tokens=counts.get("input", 0) + read + written, output_tokens=counts.get("output", 0),
                          cache_read_tokens=read, cache_write_tokens=written)
    return usage


def _lasting(messages: Sequence[Any], message: ChatMessage[Any]) -> Any:
    """Returns model messages without members that are made anew, that are not set, or that are the message's own."""

    def reduce(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: reduce(member) for name, member in value.items()
                    if name not in _VOLATILE and member not in (None, [], {}, "")
                    and (name, member) != ("model_name", message.model_name)}
        return [reduce(item) for item in value] if isinstance(value, list) else value

    return reduce(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))


def _dump(name: str, value: Any) -> Any:
    if name == "messages":
        return ModelMessagesTypeAdapter.dump_python(list(value), mode="json")
    if name == "cost_info":
        return None if value is None else str(value.total_cost)
    return to_jsonable_python(value)


def _load(name: str, value: Any) -> Any:
    match name:
        case "messages":
            return ModelMessagesTypeAdapter.validate_python(value)
        case "cost_info":
            return None if value is None else TokenCost(total_cost=Decimal(value))
        case "usage":
            return RunUsage(**value)
        case "timestamp":
            return datetime.fromisoformat(value)
    return value


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat((text or "1970-01-01T00:00:00Z").replace("Z", "+00:00"))
