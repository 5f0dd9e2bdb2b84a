"""Random operations for verify_client.py: each session is reproducible from one seed."""
import random
import shutil

from annals_cli import Annals
from client_cases import PIXEL, at, imported
from verify_client import MODEL, Wanted, user

LAYOUTS = ["chorus", "clog", "orchestrator"]


def register(case, seed, count):
    """Registers `count` cases, one per seed."""
    for number in range(seed, seed + count):
        def run(stage, number=number):
            return Walk(stage, random.Random(number)).run()
        run.__doc__ = "random operations from the seed %d" % number
        case("random-%d" % number)(run)


class Walk:
    """One session, the operations on it, and the messages that a client must send."""

    def __init__(self, stage, dice):
        self.stage, self.dice = stage, dice
        self.session, self.file = stage.annals.new(stage.work)
        # The messages sent now; and per reply from which the session may continue, the messages up
        # to it.
        self.sent, self.places = [], {}
        self.calls = 0
        self.done = []
        self.leaf = None

    def run(self):
        """Creates the session and returns the expected result."""
        self.turn()
        for _ in range(self.dice.randint(3, 9)):
            steps = [self.turn] * 4 + [self.branch, self.aside, self.compact, self.fork, self.through_import,
                                       self.through_layout]
            step = self.dice.choice(steps)
            self.done.append(step.__name__)
            step()
        self.turn()
        return Wanted(self.file, self.sent, self.leaf)

    # --- drafts ---

    def texts(self, what):
        """Returns one to three text blocks, sometimes with an image between them."""
        blocks = [{"type": "text", "text": "%s %d" % (what, self.dice.randrange(10 ** 6))}
                  for _ in range(self.dice.choice([1, 1, 2, 3]))]
        if what == "prompt" and self.dice.random() < 0.2:
            blocks.insert(1, PIXEL)
        return blocks

    def reply(self, blocks, stop_reason="end_turn"):
        """Returns a reply, which may have no model unless it is the first."""
        draft = {"role": "assistant", "content": blocks, "stop_reason": stop_reason}
        if not self.sent or self.dice.random() < 0.7:
            draft["model"] = MODEL
        return draft

    def drafts(self):
        """Returns a prompt, optional calls with their results, and a reply."""
        drafts = [user(self.texts("prompt"))]
        thinking = {"type": "thinking", "thinking": "thought %d" % self.dice.randrange(10 ** 6), "signature": "c2ln"}
        if self.dice.random() < 0.5:
            calls = []
            for _ in range(self.dice.randint(1, 3)):
                self.calls += 1
                calls.append({"type": "tool_use", "id": "toolu_random_%d" % self.calls, "name": "Bash",
                              "input": {"command": "true"}})
            drafts.append(self.reply([thinking, *calls], "tool_use"))
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "out"} for call in calls]
            drafts += [user(results)] if self.dice.random() < 0.5 else [user([result]) for result in results]
        drafts.append(self.reply([thinking] * (self.dice.random() < 0.3) + self.texts("reply")))
        return drafts

    def clocked(self, drafts):
        """Returns the drafts without times, or with times that rise, stay or fall."""
        kind = self.dice.choice(["none", "none", "rise", "stay", "fall", "future"])
        if kind == "none":
            return drafts
        base = {"future": 10 ** 9}.get(kind, self.dice.randrange(80000))
        step = {"rise": 5, "stay": 0, "fall": -5, "future": -1}[kind]
        return [{**draft, "timestamp": at(base + step * number)} for number, draft in enumerate(drafts)]

    # --- operations ---

    def turn(self, place=None):
        """Appends a turn, in one call or draft by draft."""
        drafts = self.drafts()
        timed = self.clocked(drafts)
        groups = [timed] if self.dice.random() < 0.5 else [[draft] for draft in timed]
        for group in groups:
            self.leaf = self.stage.annals.append(self.session, *group, at=place)[-1]
            place = None
        self.sent = self.sent + drafts
        self.places[self.leaf] = self.sent

    def branch(self):
        """Continues from an earlier reply."""
        if not self.places:
            return self.turn()
        place = self.dice.choice(sorted(self.places))
        self.sent = self.places[place]
        return self.turn(place)

    def aside(self):
        """Writes a title, a tag or a note."""
        verb, text = self.dice.choice([(["title"], "A title"), (["tag"], "a-tag"), (["notes", "add"], "A note.")])
        self.stage.annals.run(*verb, self.session, text)

    def compact(self):
        """Compacts the session."""
        summary = "SUMMARY %d" % self.dice.randrange(10 ** 6)
        self.stage.annals.run("compact", self.session, "--summary", summary)
        self.sent, self.leaf = [{**user(""), "contains": summary}], None

    def fork(self):
        """Forks the session at its end, or at an earlier reply."""
        place = self.dice.choice([None, *sorted(self.places)])
        if place:
            self.sent = self.places[place]
        self.session, self.file = self.stage.annals.fork(self.session, place)
        self.places, self.leaf = {}, None

    def through_import(self):
        """Exports the session and imports it into an empty root."""
        self.alone()
        self.file = imported(self.stage, self.session, self.file)
        shutil.rmtree(self.stage.root.parent / "exported")
        (self.stage.root.parent / "export.json").unlink()
        self.places, self.leaf = {}, None

    def through_layout(self):
        """Converts the session to another layout and back, with or without its origin."""
        self.alone()
        layout = self.dice.choice(LAYOUTS)
        away, annals = self.stage.root.parent / layout, self.stage.annals
        clean = ["--no-origin"] if self.dice.random() < 0.5 else []
        annals.run("convert", "claude-code:%s" % self.stage.root, "--to", layout, "--into", away, *clean)
        shutil.rmtree(self.stage.root)
        there = Annals(annals.command, away, layout)
        there.run("convert", "%s:%s" % (layout, away), "--to", "claude-code", "--into", self.stage.root, *clean)
        shutil.rmtree(away)
        (self.file,) = self.stage.root.glob("projects/*/*.jsonl")
        self.session = self.file.stem
        self.places, self.leaf = {}, None

    def alone(self):
        """Removes the sessions from which this one was forked."""
        for other in self.stage.root.glob("projects/*/*.jsonl"):
            if other != self.file:
                other.unlink()
