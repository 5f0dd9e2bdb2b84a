"""The parser of the orchestrator's design document: four types, exactly their members.

    python3 orchestrator.py FILE

Prints a warning for each line that it does not take, and the number of messages.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any, Optional


@dataclass
class UserMessage:
    type: str
    content: str
    timestamp: str
    metadata: Optional[dict] = None


@dataclass
class AssistantMessage:
    type: str
    content: str
    timestamp: str
    usage: dict
    model: str
    stopReason: Optional[str] = None


@dataclass
class ToolCallMessage:
    type: str
    tool: str
    arguments: dict
    timestamp: str
    toolCallId: Optional[str] = None


@dataclass
class ToolResultMessage:
    type: str
    tool: str
    timestamp: str
    result: Any = None
    error: Optional[str] = None
    duration_ms: Optional[float] = None
    toolCallId: Optional[str] = None


def warning(text):
    print(f"warning: {text}")


def parse_jsonl_stream(session_file):
    line_number = 0
    with open(session_file, "r") as f:
        for line in f:
            line_number += 1
            if not line.strip():
                continue
            try:
                message_dict = json.loads(line)
                message_type = message_dict.get("type")
                if message_type not in ["user", "assistant", "tool_call", "tool_result"]:
                    warning(f"Invalid message type '{message_type}' at line {line_number}")
                    continue
                if message_type == "user":
                    yield UserMessage(**message_dict)
                elif message_type == "assistant":
                    yield AssistantMessage(**message_dict)
                elif message_type == "tool_call":
                    yield ToolCallMessage(**message_dict)
                elif message_type == "tool_result":
                    yield ToolResultMessage(**message_dict)
            except json.JSONDecodeError as e:
                warning(f"Corrupted JSON at line {line_number}: {e}\nLine content: {line[:100]}...")
                continue
            except Exception as e:
                warning(f"Failed to parse message at line {line_number}: {e}\nLine content: {line[:100]}...")
                continue


messages = list(parse_jsonl_stream(sys.argv[1]))
for message in messages:
    if isinstance(message, AssistantMessage):
        assert set(message.usage) == {
            "input_tokens",
            "output_tokens",
            "cache_creation_tokens",
            "cache_read_tokens",
        }, message.usage
        sum(message.usage.values())
    if isinstance(message, UserMessage) and message.metadata is not None:
        assert set(message.metadata) <= {"source", "sessionId"}, message.metadata
        assert message.metadata.get("source") in (None, "cli", "api", "agent"), message.metadata
print(f"{len(messages)} messages")
