"""A status as rich draws it."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipelines.terminal.status import Device, Status, duration

_BARS = "▁▂▃▄▅▆▇█"
_CURVE = 40
"""Values of a curve that are shown."""
_MOST_DEVICES = 12
_COLOURS = {"correct": "green", "wrong": "red", "unparsed": "yellow", "timeout": "magenta", "error": "bold red"}


def view(status: Status, events: Iterable[tuple[float, str]] = ()) -> RenderableType:
    """`events` are the last notices, each with its age in seconds."""
    rows: list[RenderableType] = [_progress(status)]
    figures = [*status.figures, *status.details]
    if figures:
        rows.append(Text("   ".join(figures)))
    name, values = status.curve
    if len(values) > 1:
        rows.append(Text.assemble((f"{name} ", "dim"), (sparkline(values[-_CURVE:]), "cyan")))
    if status.verdicts:
        rows.append(_verdicts(status))
    if status.devices:
        rows.append(_devices(status.devices))
    rows += [Text(note, style="dim") for note in status.notes]
    rows += [
        Text(f"{duration(age)} ago  {text}", style="dim", no_wrap=True, overflow="ellipsis") for age, text in events
    ]
    return Panel(Group(*rows), title=Text(status.title), title_align="left", box=box.ROUNDED, border_style="dim")


def sparkline(values: Sequence[float]) -> str:
    """A character a value, from the lowest to the highest of them; those that are no numbers are blank."""
    known = [value for value in values if value == value]
    low, high = min(known, default=0.0), max(known, default=0.0)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * scale)] if value == value else " " for value in values)


def _progress(status: Status) -> Table:
    row = Table.grid(padding=(0, 2), expand=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True)
    left = f"about {duration(status.seconds_left)} left" if status.seconds_left is not None else ""
    share = f"{status.done / status.total:.0%}" if status.total else ""
    text = f"{status.done}/{status.total} {status.unit}  {share}  {left}".rstrip()
    bar = ProgressBar(total=max(1, status.total), completed=status.done)
    row.add_row(bar, Text(text))
    if status.phase:
        row.add_row(Text(status.phase, no_wrap=True, overflow="ellipsis"), "")
    return row


def _verdicts(status: Status) -> Text:
    text = Text()
    for name, count in status.verdicts.items():
        text.append(f"{count} {name}   ", style=_COLOURS.get(name, "") if count else "dim")
    return text


def _devices(devices: Sequence[Device]) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for _ in range(3):
        table.add_column(no_wrap=True, justify="right")
    for device in devices[:_MOST_DEVICES]:
        rows = "" if device.live_rows is None else f"{device.live_rows} rows, {device.waiting or 0} waiting"
        speed = "" if device.tokens_per_s is None else f"{device.tokens_per_s:.0f} tokens/s"
        full = "" if device.occupancy is None else f"{device.occupancy:.0%} full"
        table.add_row(Text(device.name, style="bold"), Text(device.place), rows, speed, full)
    if len(devices) > _MOST_DEVICES:
        table.add_row(Text(f"… and {len(devices) - _MOST_DEVICES} more", style="dim"))
    return table
