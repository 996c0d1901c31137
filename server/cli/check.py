"""`gradline check`: finds, reports, and with `--fix` mends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from ..report import FORMATS, counted
from . import FAILURE, FINDINGS, OK, command

if TYPE_CHECKING:
    from ..cache import Answer
    from ..config import Configuration
    from ..disk import Problem
    from ..report import Entry
    from ..workspace import Workspace
    from .fixing import Fixed

STDIN = "-"


def register(commands: Any, help_class: type[argparse.HelpFormatter]) -> None:
    parser = command(commands, help_class, "check", "find where gradients are lost", run)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: the current folder)")
    fixing = parser.add_argument_group("fixes")
    fixing.add_argument("--fix", action="store_true", help="apply the fixes that are safe")
    fixing.add_argument("--unsafe-fixes", action="store_true", help="with --fix or --diff: also those that need a look")
    fixing.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    fixing.add_argument(
        "--add-ignore", action="store_true", help="silence what is found with `# gradline: ignore[...]` comments"
    )
    choosing = parser.add_argument_group("rules")
    for name, what in (
        ("--select", "only these"),
        ("--extend-select", "these too"),
        ("--ignore", "not these"),
    ):
        choosing.add_argument(
            name, action="append", metavar="RULES", help=f"{what}: codes, names, GL1 for a family, ALL; with commas"
        )
    choosing.add_argument("--show-doubtful", action="store_true", help="also findings that rest on a guess")
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=FORMATS, metavar="FORMAT", default="full", help=", ".join(FORMATS))
    output.add_argument("-o", "--output-file", metavar="FILE", help="write the report there")
    output.add_argument("--statistics", action="store_true", help="count the findings of each rule instead")
    output.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="(default: auto)")
    output.add_argument("--timings", action="store_true", help="say where the time went: by part, file and rule")
    output.add_argument("-q", "--quiet", action="store_true", help="findings only, no summary")
    output.add_argument("-v", "--verbose", action="store_true", help="also which files were checked, and bounds met")
    more = parser.add_argument_group("other")
    more.add_argument("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    more.add_argument("--watch", action="store_true", help="check again whenever a file changes")
    more.add_argument("--stdin-filename", metavar="FILE", help="check standard input as if it were this file")
    more.add_argument("--force-exclude", action="store_true", help="leave out excluded files even if they are named")
    more.add_argument(
        "--jobs", type=_count, metavar="N", help="processes that work at it (default: what is worth while here)"
    )
    more.add_argument("--no-cache", action="store_true", help="make the check anew even if nothing has changed")
    more.add_argument("--cache-dir", metavar="FOLDER", help="where to keep what the last check said")
    more.add_argument("--config", metavar="FILE", help="take the settings from this file alone")
    more.add_argument("--isolated", action="store_true", help="heed no settings file")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("a number from 1 on")
    return int(text)


class Outcome(NamedTuple):
    """One round of checking: the exit code, and the files that it looked at."""

    code: int
    paths: tuple[str, ...]


def run(arguments: argparse.Namespace) -> int:
    problem = _contradiction(arguments)
    if problem:
        print(f"gradline: {problem}", file=sys.stderr)
        return FAILURE
    workspace = open_workspace(arguments)
    _check_output_file(arguments.output_file)
    if arguments.watch:
        from .watch import watch

        return watch(workspace, lambda: _measured(workspace, arguments))
    return _measured(workspace, arguments).code


def _measured(workspace: Workspace, arguments: argparse.Namespace) -> Outcome:
    """Checks once; with `--timings` it also says where the time went."""
    from ..workspace import collecting_rarely

    if not arguments.timings:
        with collecting_rarely():
            return check_once(workspace, arguments)
    from ..report import below, clean, here
    from .timings import Timings

    timings = Timings()
    with timings.measuring(), collecting_rarely():
        outcome = check_once(workspace, arguments)
    sys.stdout.flush()
    timings.say(sys.stderr, lambda path: clean(below(path, here()) or path))
    return outcome


def _contradiction(arguments: argparse.Namespace) -> str | None:
    stdin = arguments.stdin_filename or STDIN in arguments.paths
    if problem := _empty(arguments):
        return problem
    if arguments.stdin_filename and os.path.isdir(arguments.stdin_filename):
        return "--stdin-filename is a folder: give the name that the file would have"
    if arguments.diff and (arguments.statistics or arguments.output_format != "full"):
        return "--diff writes a patch and nothing else: it goes with neither --statistics nor --output-format"
    if arguments.cache_dir and os.path.exists(arguments.cache_dir) and not os.path.isdir(arguments.cache_dir):
        return f"--cache-dir {arguments.cache_dir} is no folder"
    if arguments.fix and arguments.diff:
        return "--fix changes files and --diff does not: give one of them"
    if arguments.add_ignore and (arguments.fix or arguments.diff or stdin):
        return "--add-ignore goes with none of --fix, --diff and standard input"
    if arguments.watch and (arguments.fix or arguments.diff or arguments.add_ignore or stdin or arguments.output_file):
        return "--watch goes with none of --fix, --diff, --add-ignore, --output-file and standard input"
    if stdin and len(arguments.paths) > 1:
        return "standard input is one file: give no other"
    if arguments.config and arguments.isolated:
        return "--config and --isolated exclude each other"
    return None


def _empty(arguments: argparse.Namespace) -> str | None:
    """What is wrong if an argument is the empty text: mostly a variable of a script that was never set."""
    if "" in arguments.paths:
        return "a path is empty: give a file or a folder (`.` is this one)"
    for option in ("output_file", "stdin_filename", "cache_dir", "config"):
        if getattr(arguments, option) == "":
            return f"--{option.replace('_', '-')} is empty: give it a path, or leave it out"
    return None


def _check_output_file(name: str | None) -> None:
    """Says before any work is done that the report can't be written. Raises ConfigError."""
    if name is None:
        return
    from ..config import ConfigError

    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise ConfigError(name, None, f"can't be written: there is no folder {folder}")
    if os.path.isdir(name):
        raise ConfigError(name, None, "can't be written: it is a folder, and a file is needed")


def _check_overwriting(name: str | None, paths: Iterable[str]) -> None:
    """Raises ConfigError if the report would be written over a program that is checked."""
    if name is None or not os.path.isfile(name):
        return
    from ..config import ConfigError

    if any(os.path.isfile(path) and os.path.samefile(name, path) for path in paths):
        raise ConfigError(name, None, "is one of the files to check, and the report would be written over it")


def configuration(arguments: argparse.Namespace) -> Configuration:
    """The settings as the arguments have them. Raises ConfigError."""
    from ..config import ConfigError, Configuration, Overrides, selector_of

    chosen: dict[str, tuple[str, ...] | None] = {}
    for name in ("select", "extend_select", "ignore"):
        given = getattr(arguments, name)
        words = [word for part in given or () for word in part.replace(",", " ").split()]
        if given is not None and not words:
            raise ConfigError("--" + name.replace("_", "-"), None, "names no rule (`gradline rules` lists them)")
        try:
            chosen[name] = tuple(selector_of(word) for word in words) if given is not None else None
        except ValueError as error:
            option = "--" + name.replace("_", "-")
            raise ConfigError(option, None, f"{error} (`gradline rules` lists them)") from None
    overrides = Overrides(chosen["select"], chosen["extend_select"] or (), chosen["ignore"] or ())
    return Configuration(arguments.config, overrides, arguments.isolated)


def open_workspace(arguments: argparse.Namespace) -> Workspace:
    """The projects that this folder and the named paths belong to."""
    from ..disk import normal, root_above
    from ..workspace import Workspace

    roots: list[str] = []
    for given in (".", *arguments.paths):
        path = normal(given)
        if given == STDIN or any(f"{path}/".startswith(f"{root.rstrip('/')}/") for root in roots):
            continue
        roots.append(root_above(path if os.path.isdir(path) else path.rpartition("/")[0] or "/"))
    return Workspace(roots, configuration(arguments))


def check_once(workspace: Workspace, arguments: argparse.Namespace) -> Outcome:
    """Checks, fixes if asked to, and reports."""
    from ..config import ConfigError
    from ..disk import MAX_BYTES
    from ..messages import say, tell
    from ..report import WITH_FIXES, Entry
    from ..report.full import findings
    from . import fixing

    stdin = bool(arguments.stdin_filename) or arguments.paths == [STDIN]
    data = b""
    if stdin:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError("standard input", None, f"is longer than {MAX_BYTES // 1_000_000} MB: no program is")
        paths = _take_stdin(workspace, arguments, data)
    else:
        given = arguments.paths or ["."]
        paths = workspace.disk.discover(given, arguments.force_exclude)
        for path in paths:
            workspace.configuration.for_path(path)  # settings that can't be used are said before any work is done
    _check_overwriting(arguments.output_file, paths)
    fixed = fixing.Fixed()
    if arguments.fix or arguments.diff:
        fixed = fixing.fix_all(workspace, paths, arguments.unsafe_fixes, arguments.show_doubtful)
    answer: Answer | None = None
    if stdin or fixed.after:
        checked = workspace.check(paths, arguments.show_doubtful)
    elif arguments.no_cache:
        from .. import jobs

        jobs.analyse(workspace, paths, arguments.jobs)
        checked = workspace.check(paths, arguments.show_doubtful)
    else:
        from .. import cache

        folder = arguments.cache_dir or cache.default_folder()
        answer = cache.check(workspace, paths, arguments.show_doubtful, folder, arguments.jobs)
        checked = answer.checked
    if arguments.add_ignore:
        fixed = fixing.silence_all(workspace, (finding for found in checked.findings.values() for finding in found))
        fixed.save()
        files = len(fixed.after.keys() - fixed.failed)
        where = say("1 file") if files == 1 else say("{n} files", n=files)
        print(tell("Silenced {findings} in {files}.", findings=findings(fixed.count), files=where))
        _say_problems(workspace.disk.problems, arguments)
        return Outcome(_code(arguments, (), fixed, workspace.disk.problems), tuple(paths))
    wants_fixes = arguments.output_format in WITH_FIXES and not arguments.statistics and not arguments.diff
    fix = workspace.fix if answer is None else answer.fix
    entries = [
        Entry(finding, fix(finding) if wants_fixes else None)
        for path in paths
        for finding in checked.findings.get(path, ())
    ]
    if answer is not None:
        answer.save()
    if arguments.diff:
        with _opened(arguments.output_file, sys.stdout) as stream:
            fixed.write_diff(stream)
        if not arguments.quiet:
            print(tell("Would fix {findings}.", findings=findings(fixed.count)), file=sys.stderr)
    elif arguments.fix and stdin:
        _write_stdin(data, paths, fixed)
    elif arguments.fix:
        fixed.save()
    if not arguments.diff:
        out = sys.stderr if stdin and arguments.fix else sys.stdout
        _report(workspace, arguments, entries, paths, fixed, len(checked.notes), out)
    _say_problems([*workspace.disk.problems, *_not_python(workspace, paths)], arguments)
    if arguments.verbose:
        for note in checked.notes:
            print(f"gradline: note: {note}", file=sys.stderr)
        print(f"gradline: {counted(len(paths), 'file')} checked", file=sys.stderr)
    if not paths and not workspace.disk.problems and not arguments.quiet:
        print(f"gradline: {tell('no Python files found there')}", file=sys.stderr)
    return Outcome(_code(arguments, entries, fixed, workspace.disk.problems), tuple(paths))


def _code(arguments: argparse.Namespace, entries: Sequence[Entry], fixed: Fixed, problems: Iterable[Problem]) -> int:
    if any(problem.fatal for problem in problems) or fixed.failed:
        return FAILURE
    if arguments.exit_zero:
        return OK
    if arguments.diff:
        return FINDINGS if fixed.changed else OK
    return FINDINGS if any(entry.finding.severity.fails for entry in entries) else OK


def _take_stdin(workspace: Workspace, arguments: argparse.Namespace, data: bytes) -> list[str]:
    from ..disk import normal

    path = normal(arguments.stdin_filename or "stdin.py")
    workspace.disk.ask_for([path])
    source = workspace.disk.decode(path, data)
    if source is None:
        return []
    workspace.project.update(path, source)
    return [path]


def _write_stdin(data: bytes, paths: Sequence[str], fixed: Fixed) -> None:
    """The fixed text, or the text as it came."""
    from .fixing import encoded

    new = encoded(data, fixed.before[paths[0]], fixed.after[paths[0]]) if fixed.after else data
    sys.stdout.flush()
    sys.stdout.buffer.write(new)
    sys.stdout.buffer.flush()


def _report(
    workspace: Workspace,
    arguments: argparse.Namespace,
    entries: Sequence[Entry],
    paths: Sequence[str],
    fixed: Fixed,
    notes: int,
    out: TextIO,
) -> None:
    from .. import report
    from ..config import catalog
    from ..report.terminal import terminal_width, wants_color

    with _opened(arguments.output_file, out) as stream:
        made = report.Report(
            entries=entries,
            source=workspace.source,
            rules=catalog(),
            base=report.here(),
            checked=paths,
            color=wants_color(arguments.color, stream),
            width=terminal_width(stream),
            summary=not arguments.quiet,
            fixed=fixed.count,
            notes=notes,
            complete=not fixed.failed and not any(problem.fatal for problem in workspace.disk.problems),
        )
        if arguments.statistics:
            from .statistics import write

            write(made, stream, arguments.output_format == "json")
        else:
            report.write(arguments.output_format, made, stream)


class _opened:
    """A stream to write to: the file of this name, or `otherwise`, which is not closed."""

    def __init__(self, name: str | None, otherwise: Any) -> None:
        self._name, self._stream = name, otherwise

    def __enter__(self) -> Any:
        if self._name:
            from ..config import ConfigError

            try:
                self._stream = open(self._name, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
            except OSError as error:
                raise ConfigError(
                    self._name, None, f"can't be written: {(error.strerror or str(error)).lower()}"
                ) from None
        return self._stream

    def __exit__(self, *_: object) -> None:
        if self._name:
            self._stream.close()
        else:
            self._stream.flush()


PARSED = 50  # files; of more, parsing each whole would take as long as the check


def _not_python(workspace: Workspace, paths: Sequence[str]) -> Iterator[Problem]:
    """The files that are not Python as a whole: what of them is, was checked. They are no reason to fail. The version
    of Python is said, since the code may be for a newer one than gradline runs on.

    Nothing is said of more files than PARSED, nor of notebooks, which hold what IPython alone understands.
    """
    from ..disk import Problem
    from ..reading import fault

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for path in paths if len(paths) <= PARSED else ():
        source = workspace.source(path)
        if source is None or source.cells is not None:
            continue
        error = fault(source.text)
        if error is None:
            continue
        if isinstance(error, SyntaxError):
            where = f"at line {error.lineno} ({error.msg})" if error.lineno else f"({error.msg})"
        else:
            where = f"({error})"
        yield Problem(path, f"is not valid Python {python} {where}; what can be read of it was checked", fatal=False)


def _say_problems(problems: Iterable[Problem], arguments: argparse.Namespace) -> None:
    from ..report import clean, here, one_line

    base = here().rstrip("/") + "/"
    for problem in sorted(problems):
        name = clean(problem.path.removeprefix(base))
        kind = "error" if problem.fatal else "warning"
        print(f"gradline: {kind}: {name} {one_line(problem.message)}", file=sys.stderr)
