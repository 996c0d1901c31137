"""The client's settings (section `gradline`), for each folder of the workspace.

What a check selects and excludes is the project's matter, in `pyproject.toml`; the settings here are about the
editor: whether to look at all, at which files, and what to write between the lines.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from .watching import PATTERNS

if TYPE_CHECKING:
    from .server import GradlineServer

LOG = logging.getLogger(__name__)

SECTION = "gradline"
CHOICES = {"diagnosticMode": ("openFiles", "project"), "inlayHints": ("off", "cuts", "all")}


@dataclass(frozen=True)
class Settings:
    """The settings of one folder."""

    enable: bool = True
    diagnosticMode: str = "project"  # spelled as clients do
    inlayHints: str = "cuts"

    @classmethod
    def read(cls, given: object) -> Settings:
        """Settings from what a client sent; what it cannot mean keeps its default and is logged."""
        values: dict[str, Any] = {}
        if isinstance(given, Mapping):
            if isinstance(given.get("enable"), bool):
                values["enable"] = given["enable"]
            for name, choices in CHOICES.items():
                if given.get(name) in choices:
                    values[name] = given[name]
                elif given.get(name) is not None:
                    LOG.warning("setting gradline.%s is %r; it can be %s", name, given[name], " or ".join(choices))
        return cls(**values)


@dataclass
class Configuration:
    """The settings in force: those of the window, and of each folder that has its own."""

    window: Settings = field(default_factory=Settings)
    folders: dict[str, Settings] = field(default_factory=dict)

    def of(self, path: str) -> Settings:
        """The settings that hold for a file: those of the innermost folder around it."""
        around = [folder for folder in self.folders if path.startswith(folder.rstrip("/") + "/")]
        return self.folders[max(around, key=len)] if around else self.window


def register(server: GradlineServer) -> None:
    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        server.started()
        workspace = server.client_capabilities.workspace
        wanted = []
        if server.watch.is_asked():
            watchers = [types.FileSystemWatcher(pattern) for pattern in PATTERNS]
            wanted.append(
                types.Registration(
                    "gradline-files",
                    types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                    types.DidChangeWatchedFilesRegistrationOptions(watchers),
                )
            )
        if workspace and workspace.did_change_configuration and workspace.did_change_configuration.dynamic_registration:
            wanted.append(
                types.Registration(
                    "gradline-settings",
                    types.WORKSPACE_DID_CHANGE_CONFIGURATION,
                    types.DidChangeConfigurationRegistrationOptions(SECTION),
                )
            )
        if wanted:
            await server.ask(server.client_register_capability_async(types.RegistrationParams(wanted)))
        await pull(server)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(params: types.DidChangeConfigurationParams) -> None:
        if not await pull(server):
            settings = params.settings
            given = settings.get(SECTION, settings) if isinstance(settings, Mapping) else None
            use(server, Configuration(Settings.read(given)))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        server.use_folders()
        await pull(server)


async def pull(server: GradlineServer) -> bool:
    """Asks the client for the settings of each folder; returns whether it could be asked."""
    workspace = server.client_capabilities.workspace
    if not (workspace and workspace.configuration):
        return False
    folders = server.folders()
    items = [types.ConfigurationItem(section=SECTION)]
    items += [types.ConfigurationItem(scope_uri=uri, section=SECTION) for uri in folders.values()]
    answer = await server.ask(server.workspace_configuration_async(types.ConfigurationParams(items)))
    if answer is None or len(answer) != len(items):
        return True
    window, *others = answer
    own = {folder: Settings.read(given) for folder, given in zip(folders, others, strict=True) if given is not None}
    # a client that was started with settings may know none by this name
    use(server, Configuration(started_with(server.options) if window is None else Settings.read(window), own))
    return True


def started_with(options: object) -> Settings:
    """The settings among initialization options: bare, or under `settings`, or under the name of the section."""
    for name in ("settings", SECTION):
        if isinstance(options, Mapping) and isinstance(options.get(name), Mapping):
            options = options[name]
    return Settings.read(options)


def use(server: GradlineServer, configuration: Configuration) -> None:
    """Puts settings in force."""
    if configuration == server.configuration:
        return
    server.configuration = configuration
    server.analysis.whole_project = configuration.window.diagnosticMode == "project"
    server.analysis.begin_again()
    server.refresh_views()
