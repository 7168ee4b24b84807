"""Writes results: one document on stdout as a table, JSON, YAML or CSV; everything else goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graftwork.cli.context import OutputFormat

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, Any]
#: Heading to the cell that a row has under it.
Columns = Mapping[str, Callable[[Row], object]]


def write(result: Any, output: OutputFormat, table: Callable[[], None]) -> None:
    """Write `result` as `output` says; `table` prints it for people."""
    if output is OutputFormat.JSON:
        print(json.dumps(result, indent=2, ensure_ascii=False, default=str))
    elif output is OutputFormat.YAML:
        import yaml

        # Through JSON: a document of plain values, whatever mappings and tuples it was made of.
        plain = json.loads(json.dumps(result, default=str))
        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True)
    elif output is OutputFormat.CSV:
        _write_csv(result if isinstance(result, list) else [result])
    else:
        table()


def _write_csv(rows: Sequence[Row]) -> None:
    """A heading and a line for each row; what is no text or number is JSON."""
    import csv

    if not rows:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        values = (row.get(name) for name in rows[0])
        writer.writerow(
            json.dumps(one, ensure_ascii=False, default=str) if isinstance(one, dict | list | bool) else one
            for one in values
        )


#: Wide enough that no table of ours wraps where nobody looks: in a pipe or a file.
_PIPE_WIDTH = 10_000


def print_table(
    rows: Sequence[Row], columns: Columns, *, empty: str, pipe_width: int = _PIPE_WIDTH, least: str | None = None
) -> None:
    """Rows as a table, or the sentence `empty` on stderr; in a pipe up to `pipe_width` characters wide.

    Args:
        least: heading of the column that is left out where the table is wider than the terminal.
    """
    if not rows:
        print(empty, file=sys.stderr)
        return
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=None if sys.stdout.isatty() else pipe_width)
    table = _table(rows, columns)
    wanted = Measurement.get(console, console.options.update(max_width=_PIPE_WIDTH), table).maximum
    if least is not None and wanted > console.width:
        table = _table(rows, {heading: cell for heading, cell in columns.items() if heading != least})
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _table(rows: Sequence[Row], columns: Columns) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in columns:
        table.add_column(heading, overflow="fold", no_wrap=heading == "digest")
    for row in rows:
        table.add_row(*(Text(_cell(cell(row))) for cell in columns.values()))
    return table


def print_facts(facts: Mapping[str, object]) -> None:
    """`name  value` lines, aligned."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {_cell(value)}")


def short(digest: str) -> str:
    """A digest as people read it; still a reference, which needs twelve digits."""
    return digest[: len("sha256:") + 12]


def short_hex(digest: str) -> str:
    """The twelve digits alone, for a column that says that they are a digest."""
    return short(digest).removeprefix("sha256:")


def size(bytes_: int) -> str:
    """Bytes for people: `1.6 MB`."""
    amount = float(bytes_)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def as_json(value: object) -> str:
    """A value for people, as it is written in JSON but for the quotes of a text."""
    if value is None or isinstance(value, bool | Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _cell(value: object) -> str:
    if value is None or value == "" or value == [] or value == ():
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(as_json, value))
    return as_json(value)
