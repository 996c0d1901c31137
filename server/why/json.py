"""An explanation for programs: one object, with findings as `gradline check --output-format json` has them."""

from __future__ import annotations

from typing import Any

from ..findings import Place
from ..report import Entry, Report, here
from ..report.json import record
from . import Answer, Explanation, Located


def as_json(explained: Explanation) -> dict[str, Any]:
    """The explanation in plain values; rows and columns are from 1."""
    from ..config import catalog

    report = Report((), explained.workspace.source, catalog(), here())
    raised, error = explained.raised, explained.error
    return {
        "error": {
            "type": raised.kind or None,
            "message": raised.message,
            "known": error is not None,
            "name": error.name if error is not None else None,
            "meaning": error.meaning if error is not None else None,
            "process": raised.rank or None,
        },
        "frames": [_frame(report, one) for one in explained.frames],
        "answers": [_answer(report, one) for one in explained.answers],
        "look": error.look or None if error is not None else None,
        "check": explained.check or None,
        "probe": explained.probe or None,
        "notes": list(explained.notes),
        "others": explained.others,
    }


def _frame(report: Report, one: Located) -> dict[str, Any]:
    return {**_at(report, one.place), "function": one.frame.function or None, "moved": one.moved}


def _answer(report: Report, one: Answer) -> dict[str, Any]:
    return {
        "title": one.title,
        "certainty": one.certainty,
        **(_at(report, one.place) if one.place is not None else {"filename": None, "location": None}),
        "trail": [{**_at(report, step.place), "message": step.note} for step in one.trail],
        "finding": record(report, Entry(one.finding, one.fix)) if one.finding is not None else None,
        "facts": list(one.facts),
        "note": one.note or None,
    }


def _at(report: Report, place: Place) -> dict[str, Any]:
    location = report.location(place)
    cell = {"cell": location.cell} if location.cell is not None else {}
    return {"filename": place.path, "location": {"row": location.row, "column": location.column}, **cell}
