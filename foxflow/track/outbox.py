"""What a run, or `foxflow sync` after it, tells a store: noted in the journal first, then sent, then marked."""

from __future__ import annotations

from foxflow.track.delivery import deliver
from foxflow.track.journal import FOLDER, Entry, Journal
from foxflow.track.store import Store
from foxflow.track.trouble import Trouble, trouble
from foxflow.track.twins import Twin

_DEFECT = Trouble("a defect of foxflow stopped it", away=False)


class Outbox:
    """One run's way to its store. After a refusal nothing more of that kind is tried, after a silence nothing at all.

    Args:
        store: where the run is.
        run_id: the run.
        journal: held by this process.
    """

    def __init__(self, store: Store, run_id: str, journal: Journal) -> None:
        self.twin: Twin | None = None
        """What a twin entry found."""
        self.off: dict[str, Trouble] = {}
        """Kind of entry -> why the store took none of it."""
        self.journal = journal
        self._store, self._run_id = store, run_id

    def put(self, kind: str, value: object) -> None:
        """Note something and send it."""
        self.deliver(self.journal.append(kind, value))

    def put_texts(self, kind: str, values: dict[str, str]) -> None:
        """Parameters or tags, 100 a batch: MLflow's limit."""
        pairs = list(values.items())
        for at in range(0, len(pairs), 100):
            self.put(kind, dict(pairs[at : at + 100]))

    def send_waiting(self) -> None:
        """Send all that waits; what the store has already is not sent twice."""
        before, self.off = self.off, {}
        for entry in self.journal.waiting():
            self.deliver(entry, again=True)
        if self.journal.counts()[0]:
            self.off = self.off or before

    def settle(self) -> str | None:
        """Forget the journal if nothing waits, else let go of it.

        Returns:
            Why something waits and how to send it.
        """
        left, of = self.journal.counts()
        if not left:
            self.journal.remove()
            return None
        self.journal.close()
        said = next(iter(self.off.values()), _DEFECT)
        what = "the store went away" if said.away else "the store did not take everything"
        where = FOLDER / self._run_id
        return f"{what}: {said.says}; {left} of {of} parts wait in {where}, 'foxflow sync' sends the rest"

    def deliver(self, entry: Entry, *, again: bool = False) -> None:
        """Send what the journal has; `again` where the store may have it already."""
        if entry.kind in self.off or any(said.away for said in list(self.off.values())):
            return
        try:
            self.twin = deliver(self._store, self._run_id, entry, again=again) or self.twin
        except Exception as error:
            said = trouble(error)
            if said is None:
                raise
            self.off[entry.kind] = said
        else:
            self.journal.sent(entry)
