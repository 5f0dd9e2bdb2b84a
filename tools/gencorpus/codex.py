#!/usr/bin/env python3
"""Generates a deterministic history of Codex CLI: rollouts of the versions 0.166 and 0.80.

    codex.py --out DIR --size 1G --sessions 3000

Writes DIR/sessions/YYYY/MM/DD/rollout-….jsonl and DIR/manifest.json with the truth: threads, lines, responses, and
tokens by model. The same options and seed give the same bytes. Needs the standard library alone.

Each turn has a prompt, reasoning, calls of tools with their output, an answer, and a record of tokens per response, in the
shape of recorded rollouts: `token_usage_record` and `token_count` (0.166), or `token_count` alone (one thread in eight, 0.80).
Outputs have a heavy tail: most have less than 2 KB, some 300 KB. Rows of `token_count` without new tokens are repeated.
"""
import argparse
import datetime
import json
import math
import random
import re
import uuid
from pathlib import Path

MODELS = [("gpt-5.4", 60), ("gpt-5-codex", 30), ("gpt-5", 10)]
WORDS = ("the index reads a record of the log and counts tokens error warning build cargo test module parser branch "
         "session cache search config file line offset append lock durable message model prompt answer tool output").split()
START = datetime.datetime(2026, 5, 1, tzinfo=datetime.timezone.utc)
DAYS = 180
INSTRUCTIONS = "You are a coding agent. " * 850
ZERO = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0, "total_tokens": 0}


def size(text):
    """Returns the bytes of a size such as 100M."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)B?", text.upper())
    if not match:
        raise argparse.ArgumentTypeError(f"not a size: {text}")
    return int(float(match[1]) * {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}[match[2]])


class Thread:
    """One rollout."""

    def __init__(self, rng, folder, truth):
        self.rng, self.truth = rng, truth
        self.time = START + datetime.timedelta(seconds=rng.uniform(0, DAYS * 86_400))
        self.id = str(uuid.UUID(int=(int(self.time.timestamp() * 1000) << 80) | (7 << 76) | rng.getrandbits(76)))
        self.old = rng.random() < 0.125
        self.model = rng.choices([name for name, _ in MODELS], [weight for _, weight in MODELS])[0]
        self.cwd = f"/home/dev/project-{rng.randrange(60):02}"
        self.lines, self.total, self.bytes = [], dict(ZERO), 0
        self.path = folder / f"{self.time:%Y/%m/%d}/rollout-{self.time:%Y-%m-%dT%H-%M-%S}-{self.id}.jsonl"
        about = {"id": self.id, "timestamp": self.stamp(), "cwd": self.cwd, "originator": "codex_exec", "source": "exec",
                 "cli_version": "0.80.0" if self.old else "0.166.0", "model_provider": "openai"}
        if self.old:
            self.line("session_meta", about | {"instructions": None})
        else:
            about |= {"session_id": self.id, "thread_source": "user", "history_mode": "paginated",
                      "base_instructions": {"text": INSTRUCTIONS, "provenance": "default"}}
            self.line("session_meta", about)

    def stamp(self):
        return f"{self.time:%Y-%m-%dT%H:%M:%S}.{self.time.microsecond // 1000:03}Z"

    def line(self, kind, payload):
        self.time += datetime.timedelta(milliseconds=self.rng.randrange(1, 4_000))
        record = {"timestamp": self.stamp()}
        if not self.old:
            record["ordinal"] = len(self.lines)
        text = json.dumps(record | {"type": kind, "payload": payload}, separators=(",", ":"))
        self.lines.append(text)
        self.bytes += len(text) + 1

    def text(self, length):
        words = self.rng.choices(WORDS, k=max(1, length // 6))
        return " ".join(words)

    def hex(self, prefix):
        return f"{prefix}{self.rng.getrandbits(64):016x}"

    def turn(self):
        turn = str(uuid.UUID(int=self.rng.getrandbits(128)))
        prompt = self.text(self.rng.randrange(30, 600))
        if not self.old:
            self.line("event_msg", {"type": "task_started", "turn_id": turn, "root_turn_id": turn})
        self.line("turn_context", {"turn_id": turn, "cwd": self.cwd, "approval_policy": "never", "model": self.model,
                                   "sandbox_policy": {"type": "danger-full-access"}, "summary": "auto"})
        self.line("response_item", {"type": "message", "id": self.hex("msg_"), "role": "user",
                                    "content": [{"type": "input_text", "text": prompt}]})
        if self.old:
            self.line("event_msg", {"type": "user_message", "message": prompt, "images": []})
        else:
            self.item(turn, {"type": "UserMessage", "id": self.hex("u"), "content": [{"type": "text", "text": prompt}]})
        for _ in range(self.rng.randrange(0, 7)):
            self.reasoning(turn)
            call, command = self.hex("call_"), self.text(60)
            self.line("response_item", {"type": "function_call", "name": "shell", "call_id": call,
                                        "arguments": json.dumps({"command": ["bash", "-lc", command]})})
            self.usage(turn)
            length = min(300_000, int(self.rng.lognormvariate(math.log(900), 1.6)))
            self.line("response_item", {"type": "function_call_output", "call_id": call, "output": self.text(length)})
        self.reasoning(turn)
        answer = self.text(self.rng.randrange(80, 3_000))
        self.line("response_item", {"type": "message", "id": self.hex("msg_"), "role": "assistant",
                                    "content": [{"type": "output_text", "text": answer}]})
        if self.old:
            self.line("event_msg", {"type": "agent_message", "message": answer})
        else:
            self.item(turn, {"type": "AgentMessage", "id": self.hex("a"), "content": [{"type": "Text", "text": answer}]})
        self.usage(turn)
        if not self.old:
            self.line("event_msg", {"type": "task_complete", "turn_id": turn, "last_agent_message": answer})

    def item(self, turn, item):
        self.line("event_msg", {"type": "item_completed", "thread_id": self.id, "turn_id": turn, "item": item})

    def reasoning(self, turn):
        self.line("response_item", {"type": "reasoning", "id": self.hex("rs_"), "content": None,
                                    "summary": [{"type": "summary_text", "text": self.text(120)}],
                                    "encrypted_content": self.hex("") * self.rng.randrange(20, 90)})

    def usage(self, turn):
        cached = self.rng.randrange(0, 90_000)
        reasoning = self.rng.randrange(0, 900)
        fresh, output = self.rng.randrange(100, 9_000), reasoning + self.rng.randrange(5, 2_000)
        used = {"input_tokens": cached + fresh, "cached_input_tokens": cached, "output_tokens": output,
                "reasoning_output_tokens": reasoning, "total_tokens": cached + fresh + output}
        for name, count in used.items():
            self.total[name] += count
        if not self.old:
            self.line("token_usage_record", {"thread_id": self.id, "turn_id": turn, "session_id": self.id,
                                             "response_id": self.hex("resp_"), "usage": used,
                                             "thread_token_usage": self.total})
        count = {"type": "token_count", "info": {"total_token_usage": self.total, "last_token_usage": used,
                                                 "model_context_window": 258_400}, "rate_limits": None}
        for _ in range(2 if self.rng.random() < 0.1 else 1):
            self.line("event_msg", count)
        tokens = self.truth["tokens"].setdefault(self.model, dict(ZERO))
        for name, number in used.items():
            tokens[name] += number
        self.truth["responses"] += 1

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join(self.lines) + "\n", encoding="ascii")
        self.truth["lines"] += len(self.lines)
        self.truth["bytes"] += self.bytes
        self.truth["threads"] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=size, default=size("1G"))
    parser.add_argument("--sessions", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    truth = {"threads": 0, "lines": 0, "bytes": 0, "responses": 0, "tokens": {}}
    for number in range(given.sessions):
        thread = Thread(rng, given.out / "sessions", truth)
        # Threads differ in length; together they have the size that was asked for.
        left = (given.size - truth["bytes"]) / (given.sessions - number)
        wanted = left * min(20, rng.lognormvariate(-0.5, 1))
        while True:
            thread.turn()
            if thread.bytes >= wanted:
                break
        thread.write()
    (given.out / "manifest.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(truth))


if __name__ == "__main__":
    main()
