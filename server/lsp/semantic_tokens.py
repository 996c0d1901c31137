"""Semantic tokens: the words that cut, switch and send gradients, each its own type."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lsprotocol import types

from .answers import TOKENS
from .sync import View

if TYPE_CHECKING:
    from .server import GradlineServer

TYPES = {"cut": "gradientCut", "switch": "gradientSwitch", "flow": "gradientFlow"}
MODIFIERS = ("cut", "off", "harmless")
LEGEND = types.SemanticTokensLegend(list(TYPES.values()), list(MODIFIERS))


def encode(server: GradlineServer, view: View, start: int, end: int) -> list[int]:
    """The tokens of a document between two offsets, as the protocol packs them: five numbers each, relative."""
    kinds = list(TYPES)
    data: list[int] = []
    line = column = 0
    for token in sorted(server.engine.tokens(view.path)):
        if token.end <= start or token.start >= end or not view.holds(token.start, token.end):
            continue
        at = view.range(token.start, token.end)
        if at.start.line != at.end.line:
            continue
        down = at.start.line - line
        right = at.start.character - (0 if down else column)
        marks = sum(1 << MODIFIERS.index(mark) for mark in token.marks if mark in MODIFIERS)
        data += down, right, at.end.character - at.start.character, kinds.index(token.kind), marks
        line, column = at.start.line, at.start.character
    return data


def difference(old: list[int], new: list[int]) -> list[types.SemanticTokensEdit]:
    """The one edit that makes `new` of `old`; none if they are equal."""
    if old == new:
        return []
    head = 0
    shorter = min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return [types.SemanticTokensEdit(head, len(old) - head - tail, new[head : len(new) - tail])]


def register(server: GradlineServer) -> None:
    given: dict[str, tuple[str, list[int]]] = {}  # by address: the last full answer and its id

    def full(uri: str) -> types.SemanticTokens | None:
        view = server.view(uri)
        if view is None:
            given.pop(uri, None)
            return None
        data = server.answers.give(TOKENS, view, lambda view: encode(server, view, view.start, view.end))
        given[uri] = uuid.uuid4().hex, data
        return types.SemanticTokens(data=data, result_id=given[uri][0])

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)
    def tokens(params: types.SemanticTokensParams) -> types.SemanticTokens | None:
        return full(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, LEGEND)
    def delta(params: types.SemanticTokensDeltaParams) -> types.SemanticTokens | types.SemanticTokensDelta | None:
        old = given.get(params.text_document.uri)
        answer = full(params.text_document.uri)
        if answer is None or old is None or old[0] != params.previous_result_id:
            return answer
        return types.SemanticTokensDelta(difference(old[1], list(answer.data)), answer.result_id)

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, LEGEND)
    def within(params: types.SemanticTokensRangeParams) -> types.SemanticTokens | None:
        view = server.view(params.text_document.uri)
        if view is None:
            return None
        data = encode(server, view, view.offset(params.range.start), view.offset(params.range.end))
        return types.SemanticTokens(data=data)
