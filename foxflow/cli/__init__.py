"""The command line: parses, threads the stages, prints, exits. JSON goes to stdout, everything else to stderr.

Exit codes: 0 equal or passed, 1 diverged or failed, 2 a mistake of the caller, 3 not comparable or incomplete,
4 a defect of foxflow.
"""

from __future__ import annotations

import sys
import traceback

import typer

from foxflow import __version__
from foxflow.cli.app import app
from foxflow.errors import CorruptRecord, Mistake

EQUAL, DIVERGED, MISTAKE, NOT_COMPARABLE, DEFECT = 0, 1, 2, 3, 4


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: words after `foxflow`; those of the process by default.
    """
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    import click

    try:
        code = typer.main.get_command(app).main(args=arguments, prog_name="foxflow", standalone_mode=False)
    except (click.exceptions.NoArgsIsHelpError, click.exceptions.Exit) as end:
        return int(getattr(end, "exit_code", 0))
    except click.exceptions.ClickException as error:
        return _say(error.format_message(), MISTAKE)
    except click.exceptions.Abort:
        return _say("stopped", 130)
    except KeyboardInterrupt:
        return _say("stopped", 130)
    except Mistake as mistake:
        return _say(str(mistake), MISTAKE)
    except CorruptRecord as corrupt:
        return _say(f"corrupt: {corrupt}", NOT_COMPARABLE)
    except BrokenPipeError:
        return DEFECT
    except Exception as defect:
        traceback.print_exc()
        return _say(f"a defect of foxflow {__version__}: {defect}. Please report it with the lines above.", DEFECT)
    return int(code or 0)


def _say(line: str, code: int) -> int:
    typer.echo(f"foxflow: {line}", err=True)
    return code
