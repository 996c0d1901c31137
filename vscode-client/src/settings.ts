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
    path: settings.get<string[]>("path", []).map(resolveVariables),
    importStrategy: settings.get<StartSettings["importStrategy"]>("importStrategy", "useBundled"),
    interpreter: settings.get<string[]>("interpreter", []).map(resolveVariables),
  };
}

export function affectsStart(event: vscode.ConfigurationChangeEvent): boolean {
  return START.some((name) => event.affectsConfiguration(`${SECTION}.${name}`));
}

/** Puts in `${workspaceFolder}`, `${userHome}` and `${env:NAME}`. */
function resolveVariables(text: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  return text
    .replaceAll("${workspaceFolder}", folder)
    .replaceAll("${userHome}", os.homedir())
    .replace(/\$\{env:(\w+)\}/g, (_, name: string) => process.env[name] ?? "");
}
