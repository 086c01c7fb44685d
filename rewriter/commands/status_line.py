"""A line on a terminal that says where the work is, and goes away; imported when it is drawn."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Column

__all__ = ["draw_line"]

_REFRESH = 0.5
"""Seconds after which the line is drawn again."""


class _Terminal(Console):
    """Standard error; its cursor stays, since a runtime that aborts could not bring it back."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


def draw_line(
    text: Callable[[], str], seconds: Callable[[], float], is_done: Callable[[float], bool]
) -> None:
    """Draw a line that fits the terminal until the work is done; then it goes away.

    Args:
        text: Returns where the work is.
        seconds: Returns how long it has taken.
        is_done: Waits so many seconds, and returns whether the work is done.
    """
    with Progress(
        TextColumn(
            "seqmap: {task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
        TextColumn(
            "... {task.fields[seconds]:.0f} s", markup=False, table_column=Column(min_width=9)
        ),
        console=_Terminal(stderr=True),
        auto_refresh=False,
        redirect_stdout=False,
        transient=True,
    ) as shown:
        task = shown.add_task(text(), total=None, seconds=seconds())
        while not is_done(_REFRESH):
            shown.update(task, description=text(), seconds=seconds(), refresh=True)
