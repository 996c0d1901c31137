import * as os from "node:os";
import * as vscode from "vscode";

export const SECTION = "gradline";

/** What decides how the server is started; a change of any of it restarts the server. */
export interface StartSettings {
  path: string[];
  importStrategy: "useBundled" | "fromEnvironment";
  interpreter: string[];
}

const START: (keyof StartSettings)[] = ["path", "importStrategy", "interpreter"];

export function startSettings(): StartSettings {
  const settings = vscode.workspace.getConfiguration(SECTION);
  return {
    path: settings.get<string[]>("path", []).map((text) => resolveVariables(text)),
    importStrategy: settings.get<StartSettings["importStrategy"]>("importStrategy", "useBundled"),
    interpreter: settings.get<string[]>("interpreter", []).map((text) => resolveVariables(text)),
  };
}

/** What decides how a program is probed. */
export interface ProbeSettings {
  interpreter: string;
  options: string[];
  launcher: string[];
}

export function probeSettings(resource: vscode.Uri): ProbeSettings {
  const settings = vscode.workspace.getConfiguration(`${SECTION}.probe`, resource);
  const folder = vscode.workspace.getWorkspaceFolder(resource)?.uri.fsPath;
  return {
    interpreter: resolveVariables(settings.get<string>("interpreter", ""), folder),
    options: settings.get<string[]>("options", []).map((text) => resolveVariables(text, folder)),
    launcher: settings.get<string[]>("launcher", []).map((text) => resolveVariables(text, folder)),
  };
}

export function affectsStart(event: vscode.ConfigurationChangeEvent): boolean {
  return START.some((name) => event.affectsConfiguration(`${SECTION}.${name}`));
}

/** Puts in `${workspaceFolder}`, `${userHome}` and `${env:NAME}`. */
function resolveVariables(text: string, given?: string): string {
  const folder = given ?? vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  return text
    .replaceAll("${workspaceFolder}", folder)
    .replaceAll("${userHome}", os.homedir())
    .replace(/\$\{env:(\w+)\}/g, (_, name: string) => process.env[name] ?? "");
}
