"""What a store that did not take something says, in one line and with what to do about it."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from foxflow.errors import Mistake

LIBRARIES = ("mlflow", "sqlalchemy", "alembic", "requests", "urllib3")

_WORDS = (
    (r"error code 401|\b401 (Client Error|Unauthorized)", "it wants a name and a password (401): set "
     "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
    (r"error code 403|\b403 (Client Error|Forbidden)|PERMISSION_DENIED", "it gives no right to write (403): ask for "
     "edit permission on the experiment"),
    (r"error code 413|\b413 Client Error|error code 507|\b507 Server Error", "it takes no file of this size (quota)"),
    (r"must be in the 'active' state|Current state is deleted", "the run was deleted there: "
     "'mlflow runs restore --run-id ID' brings it back"),
    (r"RESOURCE_DOES_NOT_EXIST|No [Rr]un with id|Run .* not found", "it has no such run, it may have been removed "
     "by 'mlflow gc'"),
)  # fmt: skip

_AWAY = re.compile(
    r"ConnectionPool|ConnectionError|Connection (refused|reset|aborted)|[Tt]imed out|could not connect|"
    r"server closed the connection|Remote end closed"
)
_ANSWERED = re.compile(r"too many \d+ error responses")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something could not be sent."""

    says: str
    away: bool
    """The store can't be reached at all, so that nothing else need be tried."""
    invalid: bool = False
    """The store is well and refuses what was said: the caller's mistake."""


def trouble(error: BaseException) -> Trouble | None:
    """Judge an exception; None where it is no word of a store."""
    if isinstance(error, Mistake):
        return Trouble(str(error), away=False)
    known = type(error).__module__.split(".")[0] in LIBRARIES
    if not known and not isinstance(error, OSError | sqlite3.Error):
        return None
    text = str(error).strip()
    for pattern, words in _WORDS:
        if re.search(pattern, text):
            return Trouble(words, away=False)
    first = public((text.splitlines() or [type(error).__name__])[0])
    if _ANSWERED.search(text):
        return Trouble(f"it fails on its own side ({_ANSWERED.search(text)[0]})", away=False)  # type: ignore[index]
    if _AWAY.search(text):
        return Trouble(f"it can't be reached ({_cause(text)})", away=True)
    return Trouble(first, away=False, invalid=getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE")


def _cause(text: str) -> str:
    found = re.findall(r"Connection refused|Connection reset|[Tt]imed out|closed", text)
    return found[-1] if found else "no connection"


def public(text: str) -> str:
    """A text without the passwords of the addresses in it."""
    return re.sub(r"(\w+://)[^/\s@]*@", r"\1", text)
