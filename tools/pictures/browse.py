#!/usr/bin/env python3
"""Draws the pictures of docs/BROWSE.md: `annals browse` over the history of `annals demo`, in tmux.

    tools/pictures/browse.py [PROGRAM]      default: target/debug/annals

Each picture is what the terminal showed, as SVG: text that can be searched and copied. Needs tmux.
"""

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "pictures"
NOW = "2026-11-18T12:00:00Z"
COLUMNS, ROWS = 120, 30

# Name, keys (a list of send-keys arguments), a text to wait for, and columns.
PICTURES = [
    ("browse", [], "¦", COLUMNS),
    ("browse-search", [["-l", "upload"]], " hits", COLUMNS),
    ("browse-reader", [["Enter"], ["g"]], "{ }", 100),
    ("browse-tree", [["v"]], "resumes here", 100),
    ("browse-cost", [["Escape"], ["Escape"], ["Escape"], ["C-o"]], "tokens", 100),
]

CELL, LINE, SIZE, PAD = 8.43, 18, 14, 14
FOREGROUND, BACKGROUND = "#d5d8dd", "#15181d"


def palette(number):
    """Returns one of the 256 colours of terminals."""
    basic = "15181d e06c75 7fb069 d8a657 61a0e0 c678dd 56b6c2 d5d8dd 6b7280 e06c75 7fb069 d8a657 61a0e0 c678dd 56b6c2 ffffff"
    if number < 16:
        return "#" + basic.split()[number]
    if number >= 232:
        level = 8 + (number - 232) * 10
        return f"#{level:02x}{level:02x}{level:02x}"
    levels = [0, 95, 135, 175, 215, 255]
    number -= 16
    red, green, blue = number // 36, number // 6 % 6, number % 6
    return f"#{levels[red]:02x}{levels[green]:02x}{levels[blue]:02x}"


def width(text):
    def columns(c):
        if unicodedata.combining(c) or c in "\u200d\ufe0f":
            return 0
        return 2 if unicodedata.east_asian_width(c) in "WF" else 1

    return sum(columns(c) for c in text)


def runs(line, style):
    """Splits a line of capture-pane -e into (text, style). A style goes on in the next line."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b["):
            if part:
                yield part, dict(style)
            continue
        codes = [int(code or 0) for code in part[2:-1].split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                style.clear()
            elif code in (1, 2, 3, 4, 7):
                style[code] = True
            elif code in (22, 23, 24, 27):
                for off in {22: (1, 2), 23: (3,), 24: (4,), 27: (7,)}[code]:
                    style.pop(off, None)
            elif code == 39:
                style.pop("fg", None)
            elif 30 <= code <= 37:
                style["fg"] = palette(code - 30)
            elif 90 <= code <= 97:
                style["fg"] = palette(code - 82)
            elif code in (38, 48) and codes[:1] == [5]:
                style["fg" if code == 38 else "bg"] = palette(codes[1])
                del codes[:2]


def svg(screen, columns):
    lines = screen.rstrip("\n").split("\n")[:ROWS]
    wide, high = columns * CELL + 2 * PAD, ROWS * LINE + 2 * PAD
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="{SIZE}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    current = {}
    for row, line in enumerate(lines):
        column = 0
        for text, style in runs(line, current):
            columns_of_run = width(text)
            x, y = PAD + column * CELL, PAD + row * LINE + SIZE
            column += columns_of_run
            fg, bg = style.get("fg", FOREGROUND), style.get("bg")
            if style.get(7):
                fg, bg = bg or BACKGROUND, fg
            if bg:
                out.append(f'<rect x="{x:.1f}" y="{y - SIZE:.1f}" width="{columns_of_run * CELL:.1f}" height="{LINE}" fill="{bg}"/>')
            if not text.strip():
                continue
            lead = len(text) - len(text.lstrip(" "))
            x += lead * CELL
            text = text.strip(" ")
            extra = ' font-weight="bold"' if style.get(1) else ""
            extra += ' opacity="0.65"' if style.get(2) else ""
            extra += ' font-style="italic"' if style.get(3) else ""
            extra += ' text-decoration="underline"' if style.get(4) else ""
            out.append(
                f'<text x="{x:.1f}" y="{y:.1f}" fill="{fg}" textLength="{width(text) * CELL:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve"{extra}>{html.escape(text)}</text>'
            )
    return "\n".join(out) + "\n</svg>\n"


class Tmux:
    def __init__(self, program, home):
        self.name = f"annals-pictures-{os.getpid()}"
        env = {
            "ANNALS_NOW": NOW,
            "TZ": "UTC",
            "HOME": home,
            "XDG_STATE_HOME": f"{home}/state",
            "XDG_CONFIG_HOME": f"{home}/config",
            "CLAUDE_CONFIG_DIR": f"{home}/demo",
        }
        quiet = subprocess.run(
            [program, "demo", "--keep", f"{home}/demo"],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
        )
        if quiet.returncode:
            sys.exit(quiet.stderr)
        words = ["env", "TERM=xterm-256color", "COLORTERM=1"] + [f"{name}={value}" for name, value in env.items()]
        words += [program, "--root", f"claude-code:{home}/demo", "browse", "--read-only"]
        self.run("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", home, *words)

    def run(self, *words):
        command = ["tmux", "-L", self.name, "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def wait_for(self, text):
        """Waits until the screen shows a text and does not change any more."""
        before, end = None, time.monotonic() + 60
        while time.monotonic() < end:
            screen = self.run("capture-pane", "-p", "-e")
            if screen == before and (text == "¦" and "session" in screen or text in screen):
                return screen
            before = screen
            time.sleep(0.3)
        sys.exit(f"the screen does not show {text!r}:\n{before}")


def main():
    program = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/annals").resolve())
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        tmux = Tmux(program, home)
        try:
            for name, keys, text, columns in PICTURES:
                tmux.run("resize-window", "-x", str(columns), "-y", str(ROWS))
                for key in keys:
                    tmux.run("send-keys", *key)
                screen = tmux.wait_for(text)
                (OUT / f"{name}.svg").write_text(svg(screen, columns))
                print(f"docs/pictures/{name}.svg")
        finally:
            tmux.run("kill-server")


main()
