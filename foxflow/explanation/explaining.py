"""`explain`: two records to every root of their divergence."""

from __future__ import annotations

from foxflow import flow
from foxflow.explanation import ask as asking
from foxflow.explanation.cause import judged
from foxflow.explanation.dataflow import Dataflow
from foxflow.explanation.elements import detail
from foxflow.explanation.forms import Form, forms
from foxflow.explanation.opening import compared
from foxflow.explanation.roots import Found, Origin, Roots
from foxflow.explanation.sentence import dormant, evidence, producer_of, sentence
from foxflow.explanation.tree import case
from foxflow.explanation.view import View, views
from foxflow.explanation.walk import walk
from foxflow.opening import Given, opened

CORRUPT = "corrupt:"
"""How the reason begins of records that contradict themselves."""


def explain(a: Given, b: Given, *, allow: tuple[str, ...] = ()) -> flow.Explanation:
    """Find every root of the divergence of two records: what differs though all that it was made from is EQUAL.

    Args:
        a: a record or its folder; its dataflow and its order are followed.
        b: the other.
        allow: of seed, config, source, data, arithmetic those that may differ.

    Returns:
        The roots in order of step, iteration and dataflow; none where nothing differs, and none of records that
        contradict themselves.

    Raises:
        Mistake: `allow` names something else.
        NoRecord: there is no record at a path.
    """
    comparison = compared(a, b, allow)
    if not comparison.differing or (comparison.reason or "").startswith(CORRUPT):
        return flow.Explanation(comparison=comparison, roots=(), ask=_unrecorded(comparison))
    record_a, record_b = opened(a), opened(b)
    dataflow = Dataflow(record_a.manifest)
    roots = walk(comparison, record_a, dataflow) if len(dataflow) else _first(comparison, record_a)
    found = sorted(roots.found(), key=_order)
    other = forms(record_b, [where for root in found for where, _ in root.first])
    own = forms(record_a, list(other))
    told = [(root, _root(root, roots, comparison, (record_a, record_b), (own, other))) for root in found]
    asked = [asking.ask(root, said.confidence, dataflow) for root, said in told]
    return flow.Explanation(
        comparison=comparison,
        roots=tuple(said for _, said in told),
        case=case(comparison, dataflow),
        ask=tuple(dict.fromkeys(words for words in asked if words)),
    )


def _unrecorded(comparison: flow.Comparison) -> tuple[str, ...]:
    if comparison.verdict != flow.DIVERGED:
        return ()
    return ("what made the files that differ? Run both again with --record all",)


def _order(root: Found) -> tuple[int, int, int]:
    """As a run goes: training, evaluation, closing snapshot; then in the order of capture."""
    where, diff = root.first[0]
    phases = (flow.TRAIN, flow.EVAL, flow.FINAL)
    return phases.index(where.phase), where.step, diff.order


def _first(comparison: flow.Comparison, record: flow.Record) -> Roots:
    """Without a dataflow: the first difference in recorded order."""
    roots = Roots()
    for view in views(comparison, record):
        for place in list(view.apart)[:1]:
            return _only(roots, view, place[0], place[1])
    return roots


def _only(roots: Roots, view: View, name: str, k: int | None) -> Roots:
    roots.begin(view, (name, k), Origin(entry=None, start=False, equal=0))
    return roots


def _root(
    root: Found,
    roots: Roots,
    comparison: flow.Comparison,
    records: tuple[flow.Record, flow.Record],
    stated: tuple[dict[flow.Where, Form], dict[flow.Where, Form]],
) -> flow.Root:
    where, _ = root.largest
    changed = [w for w, _ in root.first if w in stated[1] and stated[0].get(w) != stated[1][w]]
    retyped = any(stated[0][w][0] != stated[1][w][0] for w in changed)
    found = judged(root, comparison, detail(*records, root.measured), retyped)
    other = tuple(f"{w.buffer} is {' '.join(stated[0][w])} in A, {' '.join(stated[1][w])} in B" for w in changed)
    return flow.Root(
        where=where,
        cause=found.cause,
        confidence=found.confidence,
        producer=producer_of(root) if root.entry is not None else "",
        rule=found.rule,
        sentence=sentence(root, found, roots.last_state),
        evidence=evidence(root, comparison, other),
        wakes_at=root.woke if dormant(root, roots.last_state) else None,
        also=tuple(w.buffer for w, _ in root.first if w.buffer != where.buffer),
        repeats=len(root.places),
    )
