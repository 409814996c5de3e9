"""Mistakes of the caller and how they are worded: `<subject> must <rule>, got <value>. <what to do>`.

FoxflowError
├── Mistake              the caller's: a path, an option, a tensor, a file (exit code 2)
│   ├── BadData          a market file that can't be read, with file and row
│   └── NoRecord         a path or id that holds no record
├── CorruptRecord        a record contradicts itself (verdict NOT_COMPARABLE)
└── UnseededInitError    a weight was drawn outside `scoped_init_seed`
"""

from __future__ import annotations


class FoxflowError(Exception):
    """Base of every error that foxflow raises on purpose."""


class Mistake(FoxflowError):
    """Something the caller can mend; the command line exits with 2 and one line."""


class BadData(Mistake):
    """A market file that can't be used; the message names the file and, where there is one, the row."""


class NoRecord(Mistake):
    """A folder, run id or name under which there is no record."""


class CorruptRecord(FoxflowError):
    """A record contradicts itself.

    Args:
        record: the record's folder.
        where: the file or buffer that does not fit.
        why: what was expected and what was found.
    """

    def __init__(self, record: str, where: str, why: str) -> None:
        super().__init__(f"{record}: {where}: {why}")
        self.record, self.where, self.why = record, where, why


class UnseededInitError(FoxflowError):
    """A random initial value was asked for outside `scoped_init_seed`."""


def must(subject: str, rule: str, got: object, do: str = "", kind: type[Mistake] = Mistake) -> Mistake:
    """Build (not raise) the error of a broken rule.

    Args:
        subject: the option, argument, buffer or file.
        rule: what it must do or be, e.g. "be 2-D (time, batch)".
        got: what came instead.
        do: what to do about it, a sentence.
        kind: the class of the error.
    """
    return kind(f"{subject} must {rule}, got {got}.{' ' + do if do else ''}")
