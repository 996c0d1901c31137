"""The face of the engine: findings of a project's files, and the verified fix of a finding."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import ir, reuse
from .findings import Finding, Place
from .flow import Flow, StoppedError, acts, edited, interpret, is_script, lone, program
from .memo import Memo, Recent
from .project import Module, Project
from .room import roomy
from .rule import Rule, rules
from .units import Change

if TYPE_CHECKING:
    from .edits import Edit, Fix
    from .facts import Value
    from .flow.interp import Interpreter

# A file or function without any of these words can't be the place of a finding, and is not interpreted for its own
# sake (it is when others call it).
TRIGGERS = ("backward", "grad", "optim", "nn.", " nn", "autocast", "Scaler", ".step", "Parameter", "checkpoint")


def may_speak(text: str) -> bool:
    """Whether a file with this text can be the place of a finding."""
    return any(word in text for word in TRIGGERS)


# What a function that is judged alone must have in it: most of what rules look for needs a backward or an optimizer, and
# a library's functions have neither. A constructor is judged for what it puts into plain containers, a forward for what
# it makes anew at every call.
# Each word is looked for first, which is ten times as fast as a pattern; None: the word is enough.
ALONE: tuple[tuple[str, re.Pattern[str] | None], ...] = tuple(
    (word, re.compile(pattern, re.MULTILINE) if pattern else None)
    for word, pattern in (
        ("backward", r"backward\(|\.backward\b"),
        ("require_grad", r"require_grad\b"),
        ("requires_grad", r"\.requires_grad[ \t]*=(?!=)|requires_grad=True"),
        ("Scaler", r"Scaler\b"),
        ("checkpoint(", r"\bcheckpoint\("),
        (".grad", r"\.grad\b"),
        (".step", r"\.step\(\s*\w*\s*\)|\.step[ \t]*$"),  # with more arguments it is no optimizer's
        ("zero_grad", None),
        ("_hook(", r"\.register_(?:full_backward_)?hook\("),
        (".weight", r"\.weight[ \t]*=[^=]"),
        (".detach()", r"\.detach\(\)[ \t]*$"),
        (".eval", r"\.eval[ \t]*$"),
        (".train", r"\.train[ \t]*$"),
        *(
            (word, rf"^[ \t]*(?:torch\.)?{word}(?:\(\))?[ \t]*(?:#|$)|\bwith[ \t]+(?:torch\.)?{word}[ \t]*:")
            for word in ("no_grad", "enable_grad", "inference_mode")
        ),
    )
)
# These begin with what `re` can look for before it tries to match; a few texts too many are no harm.
DROPS = tuple(re.compile(rf"{home}\.\w*(?:dropout|rrelu)") for home in ("F", "functional"))
# A parameter that does not stay one: something is done to the result of `nn.Parameter(...)`.
CHANGED = re.compile(r"Parameter\([^\n]*\)[ \t]*[.*/+@-]|^[ \t]*\)[ \t]*[.*/+@-]", re.MULTILINE)
CONTAINER = re.compile(r"nn\.[A-Z]\w+\(")
# A plain container as an attribute, at once or by way of a name; what stands in round brackets may be one.
PLAIN = re.compile(
    r"self\.\w+[ \t]*(?::[^=\n]+)?=[ \t]*"
    r"(?:[\[{]|(?:list|dict|tuple|defaultdict|OrderedDict)\(|(\()(?=[ \t]*\n|[^\n]*\bnn\.))"
)
BRACKETS = re.compile(r"[()\[\]{},]")
STORED = re.compile(r"self\.\w+[ \t]*=[ \t]*(\w+)[ \t]*$", re.MULTILINE)
NAMED = re.compile(r"^[ \t]+(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*(?:[\[{]|(?:list|dict)\()", re.MULTILINE)
# An `__init__` that makes its layers before it calls that of its base.
INITIALIZES = re.compile(r"super\(|\.__init__\(")
LAYER = re.compile(r"self\.\w+[ \t]*=[ \t]*(?:torch\.)?nn\.[A-Z]")
SQUASHED = ("softmax", "sigmoid")
LOSSES = ("cross_entropy", "CrossEntropy", "_with_logits", "WithLogits", "nll_loss", "NLLLoss", "kl_div", "KLDiv")


def _squashes(text: str) -> bool:
    """Whether a text has both what gives probabilities and what takes logarithms or scores."""
    return any(word in text for word in SQUASHED) and any(word in text for word in LOSSES)


def judged_alone(text: str) -> Callable[[str, str], bool]:
    """For a file's text: whether one of its functions (name, text) that nothing reaches can be the place of a finding."""
    alone = [(word, pattern) for word, pattern in ALONE if word in text]
    makes = "Parameter(" in text
    layers = "nn." in text
    squashes = _squashes(text)
    return lambda name, text: _judged(name, text, alone, makes, layers, squashes)


# Characters of functions of which is remembered whether they are judged alone: 25,000 lines, some open files.
MEMO_JUDGED = 1_000_000
_verdicts: Recent[tuple[str, str], bool] = Recent(MEMO_JUDGED)


def judged(name: str, text: str) -> bool:
    """The same for one function, remembered: nearly all functions of a file are what they were before an edit."""
    key = name, text
    known = _verdicts.get(key)
    return known if known is not None else _verdicts.put(key, _judged(name, text, ALONE, True, True, True))


def _judged(
    name: str,
    text: str,
    alone: Iterable[tuple[str, re.Pattern[str] | None]],
    makes: bool,
    layers: bool,
    squashes: bool,
) -> bool:
    """Whether a function can be the place of a finding, by what there is in its file."""
    for word, pattern in alone:
        if word in text and (pattern is None or pattern.search(text) is not None):
            return True
    if name == "training_step" or _drops_always(text):
        return True
    if makes and "Parameter(" in text and (name == "forward" or CHANGED.search(text) is not None):
        return True
    if name == "__init__":
        if not layers or "nn." not in text or CONTAINER.search(text) is None:
            return False
        initialized = INITIALIZES.search(text)
        if initialized is None or LAYER.search(text, 0, initialized.start()) is not None:
            return True
        return _keeps_plain_container(text)
    if squashes and _squashes(text):
        return True
    return layers and name == "forward" and CONTAINER.search(text) is not None


def _drops_always(text: str) -> bool:
    """Whether some `F.dropout(...)` does not heed `training`."""
    if "dropout" not in text and "rrelu" not in text:
        return False
    return sum(len(pattern.findall(text)) for pattern in DROPS) > text.count("training")


def _keeps_plain_container(text: str) -> bool:
    if any(found[1] is None or _is_tuple(text, found.start(1)) for found in PLAIN.finditer(text)):
        return True
    stored = STORED.findall(text)
    return bool(stored) and not set(stored).isdisjoint(NAMED.findall(text))


def _is_tuple(text: str, at: int) -> bool:
    """Whether the round bracket here has a comma of its own in it."""
    depth = 0
    for found in BRACKETS.finditer(text, at):
        mark = found[0]
        if mark == ",":
            if depth == 1:
                return True
        elif mark in "([{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return False
    return False


@dataclass(frozen=True)
class Result:
    """`findings` of each file in the order of their places; `notes` on what could not be judged."""

    findings: Mapping[str, tuple[Finding, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Analysis:
    """What one file's entry points say, about whatever file; `reads` are the files that it was found out from."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    reads: frozenset[str] = frozenset()


class CancelledError(Exception):
    """The check was stopped as `cancelled` asked for; what was learned is kept."""


@roomy
def check(
    project: Project,
    paths: Iterable[str],
    rules: Iterable[Rule] | None = None,
    cancelled: Callable[[], bool] | None = None,
    doubtful: bool = False,
) -> Result:
    """The findings in these files, as seen from the entry points of these files.

    Findings that rest on a doubt are left out unless `doubtful`. Raises CancelledError.
    """
    wanted = None if rules is None else {rule.code for rule in rules}
    paths = list(dict.fromkeys(paths))
    found: dict[str, dict[tuple[str, int, int], Finding]] = {path: {} for path in paths}
    notes: list[str] = []
    for path in paths:
        analysis = _unless(cancelled, project, path)
        notes.extend(analysis.notes)
        for finding in analysis.findings:
            if finding.place.path not in found or (wanted is not None and finding.code not in wanted):
                continue
            if finding.doubt and not doubtful:
                continue
            key = (finding.code, finding.place.start, finding.place.end)
            known = found[finding.place.path].get(key)
            if known is None or len(known.trail) < len(finding.trail):
                found[finding.place.path][key] = finding
    return Result(
        {path: tuple(sorted(by_key.values(), key=lambda f: (f.place, f.code))) for path, by_key in found.items()},
        tuple(dict.fromkeys(notes)),
    )


def _unless(cancelled: Callable[[], bool] | None, project: Project, path: str) -> Analysis:
    """What one file says, unless it is not wanted any more. Raises CancelledError."""
    if cancelled is None:
        return analyse(project, path)
    if cancelled():
        raise CancelledError
    project.cancelled = cancelled
    try:
        return analyse(project, path)
    except StoppedError as error:
        raise CancelledError from error
    finally:
        project.cancelled = None


def analyse(project: Project, path: str) -> Analysis:
    """What the entry points of one file say; remembered until something that they read changes."""
    known = project.recalled.get(path) or project.current.get(path)
    if isinstance(known, Analysis):
        return known
    memo: Memo[Analysis] = project.memo("analysis")
    made = memo.made

    def make() -> tuple[Analysis, frozenset[str]]:
        analysis = _analyse(project, path)
        return analysis, analysis.reads

    analysis = project.current[path] = memo.get(path, make)
    if memo.made == made and project.typed == path:
        project.memo("program").renew(path)  # an edit was undone: the next will be one of this text
    return analysis


def _analyse(project: Project, path: str) -> Analysis:
    module = project.module(path)
    if module is None:
        return Analysis((), (), frozenset({path}))
    if not may_speak(module.source.text):
        reads = _entry(project, module)
        if reads is not None:
            return Analysis((), (), frozenset(reads))
    wanted = judged if project.revision else judged_alone(module.source.text)
    whole = _program(project, module, wanted)
    findings, notes = list(whole.findings), list(whole.notes)
    read = {path, *whole.modules}
    for flow in lone(project, module, wanted, whole.entered):
        read |= flow.read
        notes += _notes(path, flow)
        findings += _said(flow)
    return Analysis(tuple(findings), tuple(notes), frozenset(read))


@dataclass(frozen=True)
class _Program:
    """What a module's top level says when it runs as a program, and what it depends on.

    Of the functions in `modules` that is nothing but the names, except those `made`; of a module that was opened and not
    run only what binds a name that was `asked`. `entered` are the module's own functions that it called.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    modules: Mapping[str, Module | None]
    asked: Mapping[str, frozenset[str]]
    made: frozenset[tuple[str, int]] = frozenset()
    entered: frozenset[int] = frozenset()


def _program(project: Project, module: Module, wanted: Callable[[str, str], bool]) -> _Program:
    """What the program says; an answer that an edit has left as it was is not made again."""
    memo: Memo[_Program] = project.memo("program")

    def make() -> tuple[_Program, frozenset[str]]:
        if not acts(module, wanted):
            return _Program((), (), {}, {}), frozenset({module.path})
        editing = edited(project, module)
        spread = editing.spread if editing is not None else None
        with project.standing_in(spread.module) if spread is not None else contextlib.nullcontext():
            flow = program(project, module, editing=editing)
            said = tuple(_said(flow))
        modules = {path: project.module(path) for path in flow.read}
        made, entered = flow.made, flow.entered
        if spread is not None:
            said = tuple([finding.moved(spread.real) for finding in said])
            made = frozenset([(path, spread.at(at) if path == module.path else at) for path, at in made])
            entered = frozenset(map(spread.at, entered))
        found = _Program(said, tuple(_notes(module.path, flow)), modules, flow.asked, made, entered)
        return found, flow.read

    def adapt(known: _Program) -> tuple[_Program, frozenset[str]] | None:
        changes: dict[str, Change] = {}
        modules = {path: project.module(path) for path in known.modules}
        for path, old in known.modules.items():
            new = modules[path]
            if old is new:
                continue
            if old is None or new is None:
                return None
            made = {at for other, at in known.made if other == path}
            change = reuse.harmless(old, new, made, known.asked.get(path))
            if change is None:
                return None
            changes[path] = change
        if not modules:
            return None
        own = changes.get(module.path, reuse.NONE)
        found = _Program(
            tuple([reuse.moved(finding, changes) for finding in known.findings]),
            known.notes,
            modules,
            known.asked,
            frozenset([(path, changes.get(path, reuse.NONE).moved(at)) for path, at in known.made]),
            frozenset([own.moved(at) for at in known.entered]),
        )
        return found, frozenset(modules)

    return memo.get(module.path, make, adapt)


def _said(flow: Flow) -> Iterator[Finding]:
    """What all rules say of a flow."""
    for rule in rules().values():
        for finding in rule.check(flow):
            severity = finding.severity or rule.severity
            yield finding._replace(code=rule.code, name=rule.name, severity=severity, fixable=rule.fix is not None)


def _notes(path: str, flow: Flow) -> list[str]:
    return [f"{path}: too large to be followed to its end ({note})" for note in flow.notes]


# Imported files that are looked at to tell whether a program that names nothing of torch runs something that does.
ENTRY_LIMIT = 24


def _entry(project: Project, module: Module) -> set[str] | None:
    """None if the module is a program whose imports may be the place of findings; else what was read to tell."""
    read = {module.path}
    if not is_script(module):
        return read
    todo = [module]
    while todo and len(read) < ENTRY_LIMIT:
        current = todo.pop()
        for level, dotted, names in current.imports():
            target = project.resolve(current, level, dotted)
            found = [target, *(project.submodule(target, name) for name in names if name != "*")] if target else []
            for other in found:
                if other is None or not other.in_project or other.path in read:
                    continue
                if may_speak(other.source.text):
                    return None
                read.add(other.path)
                todo.append(other)
    return read


@roomy
def fix(project: Project, finding: Finding) -> Fix | None:
    """The fix of a finding, verified: with it applied the finding is gone and no new one that fails a check has come.

    None if the rule has none, or none that is right here.
    """
    from .edits import FixContext

    rule = rules().get(finding.code)
    if rule is None or rule.fix is None:
        return None
    context = FixContext(
        project.source,
        lambda edits: cures(project, finding, edits),
        lambda edits, place, form: _values(project, finding, edits, place, form),
        lambda text: sorted(module.path for module in project.modules() if text in module.source.text),
    )
    try:
        found = rule.fix(finding, context)
    except KeyError:
        return None
    if found is None or not cures(project, finding, found.edits):
        return None
    return found


def cures(project: Project, finding: Finding, edits: Sequence[Edit]) -> bool:
    """Whether these edits make the finding go without bringing one that fails a check, seen from everybody who had it."""
    paths = {edit.path for edit in edits} | _paths(finding)
    before = _counts(project, paths, finding.code)
    texts = _edited(project, edits)
    if texts is None:
        return False
    with project.trial(texts):
        after = _counts(project, paths, finding.code)
    if after.get(finding.code, 0) >= before.get(finding.code, 0):
        return False
    return all(count <= before.get(code, 0) for code, count in after.items())


def _edited(project: Project, edits: Sequence[Edit]) -> dict[str, str] | None:
    """The texts that these edits make, by path; None if the project does not hold one of the files."""
    from .edits import apply

    texts: dict[str, str] = {}
    for path in {edit.path for edit in edits}:
        source = project.source(path)
        if source is None:
            return None
        texts[path] = apply(source.text, [edit for edit in edits if edit.path == path])
    return texts


def _paths(finding: Finding) -> set[str]:
    return {finding.place.path} | {step.place.path for step in finding.trail}


def _values(
    project: Project, finding: Finding, edits: Sequence[Edit], place: Place, form: Callable[[Value], object]
) -> list[object]:
    """What `form` makes of what stands at `place` of the edited text, on every pass of the programs that the finding
    was made of; nothing if a bound was passed. It is asked at once: what values hold is undone after a program."""
    seen: list[object] = []

    def watch(run: Interpreter, e: ir.Expr | ir.Param, value: Value) -> None:
        frame = run.frames[-1]
        start, end = ir.unpack(e.at)
        if (start + frame.base, end + frame.base) == (place.start, place.end) and frame.module.path == place.path:
            seen.append(form(value))

    texts = _edited(project, edits)
    if texts is None:
        return []
    with project.trial(texts):
        for path in sorted({place.path} | _paths(finding)):
            module = project.module(path)
            for flow in interpret(project, module, judged, watch) if module is not None else ():
                if not flow.complete:
                    return []
    return seen


def _counts(project: Project, paths: set[str], code: str) -> dict[str, int]:
    """How many findings of each code there are: those that fail a check, and those of the code that is being fixed."""
    result = check(project, sorted(paths))
    counts: dict[str, int] = {}
    for found in result.findings.values():
        for finding in found:
            if finding.severity.fails or finding.code == code:
                counts[finding.code] = counts.get(finding.code, 0) + 1
    return counts


__all__ = ["Analysis", "CancelledError", "Module", "Result", "analyse", "check", "fix"]
