"""The tools as the Model Context Protocol has them, by the official SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio.to_thread
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    MCPServer,
    Resolve,
)
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from .. import __version__
from . import tools

P = ParamSpec("P")
T = TypeVar("T")

INSTRUCTIONS = """\
gradline reads PyTorch programs and finds where they lose their gradients: a loss that was detached, gradients that were
turned off in an imported file, an optimizer that holds parameters which no backward reaches, gradients never cleared, and
some sixty more. It neither runs the program nor needs torch, and is silent where it is not sure.

After you have written or changed training code, call `check` on the files. When a training run fails, give its traceback
to `why`. `explain` tells what a rule means. `probe` runs the program to watch its gradients, and asks the user first.
"""

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)


class Checked(BaseModel):
    """`findings` are records as `gradline check --output-format json` writes them: code, name, severity, message, filename,
    location, the trail as `related`, and the fix with its edits."""

    findings: list[dict[str, Any]]


class Consent(BaseModel):
    run: bool = Field(description="Run this program now?")


def built() -> MCPServer:
    """The server with its tools."""
    server: MCPServer = MCPServer("gradline", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    server.add_tool(check, annotations=READS, title="Find where gradients are lost")
    server.add_tool(explain, annotations=READS, title="Explain a rule")
    server.add_tool(why, annotations=READS, title="Explain a traceback")
    server.add_tool(probe, annotations=RUNS, title="Run a program and watch its gradients")
    return server


def serve() -> None:
    """Over standard input and output, until the client goes."""
    built().run("stdio")


async def _call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """In a thread, so that the client can cancel meanwhile; what the tool refuses is told as a tool's error."""
    try:
        return await anyio.to_thread.run_sync(lambda: function(*args, **kwargs), abandon_on_cancel=True)
    except tools.Refused as error:
        raise ToolError(str(error)) from error


async def check(
    paths: Annotated[
        list[str] | None, Field(description="Files and folders, best absolute. Default: the folder the server runs in.")
    ] = None,
    text: Annotated[
        str | None, Field(description="Check this text, before it is written, instead of what is in a file.")
    ] = None,
    filename: Annotated[
        str, Field(description="With `text`: the file that it is, or is to be; its imports are looked for from there.")
    ] = "stdin.py",
    show_doubtful: Annotated[bool, Field(description="Also findings that rest on a guess.")] = False,
) -> Annotated[CallToolResult, Checked]:
    """Find where a PyTorch program loses its gradients, with the trail to the cause and the fix.

    Reads Python files and notebooks; runs nothing. "All checks passed!" means that nothing was found.
    """
    if text is not None and paths:
        raise ToolError("give `paths`, or `text` and its `filename`, not both")
    if text is not None:
        said, findings = await _call(tools.check_text, text, filename, show_doubtful)
    else:
        said, findings = await _call(tools.check, paths or ["."], show_doubtful)
    return CallToolResult(content=[TextContent(type="text", text=said)], structured_content={"findings": findings})


async def explain(
    rule: Annotated[str, Field(description="Its code or its name, such as GL102 or detached-loss.")],
) -> str:
    """What a rule means: why it matters, a wrong and a right program, what torch says, and the look-alikes that are fine."""
    return await _call(tools.explain, rule)


async def why(
    traceback: Annotated[str, Field(description="What the failing program wrote, with the whole traceback.")],
    folder: Annotated[
        str | None, Field(description="The folder in which the program ran. Default: the folder the server runs in.")
    ] = None,
) -> str:
    """Explain the traceback of a PyTorch program by the code that it comes from: likely causes with their evidence, and
    the edit that mends each. Runs nothing."""
    return await _call(tools.why, traceback, folder)


async def _consent(
    context: Context,
    target: str,
    arguments: list[str] | None = None,
    folder: str | None = None,
    python: str | None = None,
    steps: int = 2,
    timeout: float = 600,
) -> Elicit[Consent]:
    """Ask the user. Raises ToolError where nobody can be asked or there is nothing to run."""
    given = tools.probe_arguments(target, arguments or [], folder, python, steps, timeout)
    command, cwd = await _call(tools.probe_command, given)
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise ToolError(
            "not run: the probe runs the user's program and asks the user first, and this client has no way to ask "
            f"(elicitation). The user can run it in a terminal: gradline probe {target}"
        )
    return Elicit(
        f"gradline wants to run this program, for {steps} optimizer step{'' if steps == 1 else 's'} and at most "
        f"{timeout:g} seconds, to watch its gradients:\n\n{command}\n\nin {cwd}",
        Consent,
    )


async def probe(
    consent: Annotated[ElicitationResult[Consent], Resolve(_consent)],
    target: Annotated[
        str, Field(description="A script, a notebook, test.py::test, pkg.mod:function or pkg.mod:Class.")
    ],
    arguments: Annotated[list[str] | None, Field(description="The arguments of the script.")] = None,
    folder: Annotated[str | None, Field(description="The folder in which it runs.")] = None,
    python: Annotated[
        str | None,
        Field(
            description="The interpreter that has torch. Default: the one of the active environment, or of a `.venv` in the folder."
        ),
    ] = None,
    steps: Annotated[int, Field(description="Optimizer steps to watch.", ge=1)] = 2,
    timeout: Annotated[float, Field(description="Seconds until the run is ended.", gt=0)] = 600,
) -> str:
    """Run a training program through its first optimizer steps and report how its gradients really flowed: which
    parameters got one, where the graph was cut, who turned grad mode off, and whether the findings of `check` are
    confirmed. The user is asked first, and the files of the project are kept as they are."""
    if not isinstance(consent, AcceptedElicitation) or not consent.data.run:
        raise ToolError("not run: the user did not agree to it")
    given = tools.probe_arguments(target, arguments or [], folder, python, steps, timeout)
    said, _ = await _call(tools.probe, given, timeout)
    return said
