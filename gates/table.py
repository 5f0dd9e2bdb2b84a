"""The table of results to which every gate adds rows."""

import sys
from dataclasses import dataclass, field

HEAD = ("gate", "what", "where", "points", "kills", "acks", "lost", "control", "seconds")


@dataclass
class Row:
    """Result of one gate; a count that does not apply is None and printed as a dash."""

    gate: str
    what: str
    where: str
    points: int | None = None
    kills: int | None = None
    acks: int | None = None
    lost: int | None = None
    control: str = "-"
    seconds: float = 0.0
    failures: list = field(default_factory=list)

    def cells(self):
        def spelled(value):
            return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

        numbers = (self.points, self.kills, self.acks, self.lost)
        return (
            self.gate,
            self.what,
            self.where,
            *map(spelled, numbers),
            self.control,
            f"{self.seconds:.0f}",
        )


def show(rows, stream=sys.stdout):
    """Prints rows as a Markdown table."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    for number, line in enumerate(lines):
        cells = (cell.ljust(width) for cell, width in zip(line, widths))
        print("| " + " | ".join(cells) + " |", file=stream)
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|", file=stream)
