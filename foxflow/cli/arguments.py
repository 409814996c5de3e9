"""Arguments that several commands share, and what they name."""

from __future__ import annotations

from typing import Annotated

import typer

from foxflow import flow

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Run = Annotated[str, typer.Argument(help="A record's folder, a run id of MLflow, a run's name, or the start of an id.")]
Allow = Annotated[str, typer.Option(help="What may differ: seed, config, source, data; joined by commas.")]
Name = Annotated[str | None, typer.Option("--instrument", help="ES, US-EQUITY, or a name for --tick and --tick-value.")]
Tick = Annotated[str | None, typer.Option(help="Price of a tick, e.g. 0.25.")]
TickValue = Annotated[str | None, typer.Option(help="Worth of a tick for one lot, e.g. 12.50.")]
Fee = Annotated[str | None, typer.Option(help="Fee per lot and side.")]
Zone = Annotated[str | None, typer.Option(help="Time zone of the exchange, e.g. America/Chicago.")]
Select = Annotated[str | None, typer.Option(help="Instrument id or symbol, of a file of several.")]


def records(*names: str) -> list[flow.Record]:
    """Open the records of runs by id, name or folder."""
    from foxflow.record import open_record
    from foxflow.track import resolve

    return [open_record(resolve(name)) for name in names]


def listed(text: str) -> tuple[str, ...]:
    """Words joined by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
