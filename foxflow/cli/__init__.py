"""The command line: parses, threads the stages, prints, exits. JSON goes to stdout, everything else to stderr.

Exit codes: 0 equal or passed, 1 diverged or failed, 2 a mistake of the caller, 3 not comparable or incomplete,
4 a defect of foxflow.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

import typer

from foxflow import __version__
from foxflow.cli.app import app
from foxflow.errors import CorruptRecord, Mistake

MISTAKE, NOT_COMPARABLE, DEFECT, STOPPED = 2, 3, 4, 130

UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for words it can't parse; it has no public name of its own."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: words after `foxflow`; those of the process by default.
    """
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    try:
        code = typer.main.get_command(app).main(args=arguments, prog_name="foxflow", standalone_mode=False)
    except UsageError as error:
        return _say(error.format_message(), MISTAKE)
    except typer.Exit as end:
        return end.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return _say("stopped", STOPPED)
    except Mistake as mistake:
        return _say(str(mistake), MISTAKE)
    except CorruptRecord as corrupt:
        return _say(f"corrupt: {corrupt}", NOT_COMPARABLE)
    except Exception as defect:
        traceback.print_exc()
        return _say(f"a defect of foxflow {__version__}: {defect}. Please report it with the lines above.", DEFECT)
    return int(code or 0)


def _say(line: str, code: int) -> int:
    typer.echo(f"foxflow: {line}", err=True)
    return code
