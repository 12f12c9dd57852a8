"""Which of three numbers is the day: decided for all dates of a chat log together.

`03/04/23` alone is two days. A log's dates are in one order, and they run forward.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date

_ORDERS = ("dmy", "mdy", "ymd")
_FOUNDED = 2009  # no message of a phone's messenger is older


@dataclass(slots=True)
class DateHabits:
    """How the dates of one file do under each order of day, month and year."""

    count: int = 0
    us: bool = True
    padded: bool = False
    bad: Counter[str] = field(default_factory=Counter)
    back: Counter[str] = field(default_factory=Counter)
    first: dict[str, date] = field(default_factory=dict)
    last: dict[str, date] = field(default_factory=dict)

    def add(self, parts: tuple[str, str, str], half: str) -> None:
        self.count += 1
        self.us &= half.isascii() and half.isupper()
        self.padded |= any(part.startswith(("0", "٠")) for part in parts[:2])
        for order in _ORDERS:
            day = day_of(parts, order)
            if day is None or day.year < _FOUNDED:
                self.bad[order] += 1
                continue
            self.first.setdefault(order, day)
            self.back[order] += day < self.last.get(order, day)
            self.last[order] = day

    def order(self, separator: str) -> str:
        """Possible before forward, forward before habit, habit before the shorter span."""
        habit = ""
        if separator != "/" or self.padded:
            habit = "dmy"
        elif self.us:
            habit = "mdy"  # capital AM and PM, no zeros

        def cost(order: str) -> tuple[int, int, bool, int]:
            span = self.last[order] - self.first[order] if order in self.last else None
            other = bool(habit) and order != habit
            return self.bad[order], self.back[order], other, abs(span.days) if span else 0

        return min(_ORDERS, key=cost)


def day_of(parts: tuple[str, str, str], order: str) -> date | None:
    """The date that three numbers mean in an order such as `dmy`, or None if there is no such day."""
    written = dict(zip(order, parts, strict=True))
    if len(written["d"]) > 2 or len(written["m"]) > 2 or len(written["y"]) == 1:
        return None
    year = int(written["y"])
    if year < 100:
        year += 2000
    elif year > 2400:
        year -= 543  # the Buddhist calendar of Thai phones
    try:
        return date(year, int(written["m"]), int(written["d"]))
    except ValueError:
        return None
