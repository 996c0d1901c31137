import * as path from "node:path";
import * as vscode from "vscode";

/** What a probe runs. */
export interface Target {
  uri: vscode.Uri;
  /** For people. */
  label: string;
  /** What its arguments are remembered under. */
  key: string;
  cwd: string;
  /** Words for `gradline probe`, up to where the program's own arguments go. */
  words(launcher: string[]): string[];
}

/** The program at a place: a test, a notebook up to a cell, or a file; else a sentence that says why there is none. */
export function targetAt(given?: vscode.Uri, line?: number): Target | string {
  const notebook = notebookOf(given);
  if (notebook) {
    return notebook;
  }
  const uri = given ?? vscode.window.activeTextEditor?.document.uri;
  if (!uri || uri.scheme !== "file" || !uri.path.endsWith(".py")) {
    return "open the Python file or the notebook that is to be run, and save it.";
  }
  const cwd = vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath ?? path.dirname(uri.fsPath);
  const file = inside(cwd, uri.fsPath);
  const test = line === undefined ? undefined : testAt(uri, line);
  if (test) {
    const name = `${file}::${test}`;
    return { uri, label: name, key: name, cwd, words: () => [name, "--"] };
  }
  const words = (launcher: string[]): string[] =>
    launcher.length > 0 ? ["--wrap", "--", ...launcher, file] : [file, "--"];
  return { uri, label: file, key: file, cwd, words };
}

function notebookOf(given?: vscode.Uri): Target | undefined {
  const active = vscode.window.activeNotebookEditor;
  const wanted = given?.path ?? active?.notebook.uri.path;
  const notebook = vscode.workspace.notebookDocuments.find((one) => one.uri.path === wanted);
  if (!notebook || notebook.uri.scheme !== "file" || (!given && !active)) {
    return undefined;
  }
  const cwd = path.dirname(notebook.uri.fsPath); // where Jupyter runs it
  const file = path.basename(notebook.uri.fsPath);
  // a lens stands in a cell: the cells up to that one
  const cell = given?.scheme === "vscode-notebook-cell" ? cellOf(notebook, given) : undefined;
  const until = cell === undefined ? [] : ["--until", String(cell + 1)];
  const label = cell === undefined ? file : `${file} up to cell ${cell + 1}`;
  return { uri: notebook.uri, label, key: file, cwd, words: () => [file, ...until, "--"] };
}

function cellOf(notebook: vscode.NotebookDocument, uri: vscode.Uri): number | undefined {
  return notebook.getCells().find((cell) => cell.document.uri.toString() === uri.toString())?.index;
}

/** The node of pytest, without its file, that a line of a test file is in. */
function testAt(uri: vscode.Uri, line: number): string | undefined {
  const name = path.basename(uri.fsPath);
  const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
  if (!/^test_.*\.py$|_test\.py$/.test(name) || !document) {
    return undefined;
  }
  const found: string[] = [];
  let depth = Infinity;
  for (let at = Math.min(line, document.lineCount - 1); at >= 0 && depth > 0; at--) {
    const [, indent = "", test] = /^(\s*)(?:async\s+def|def|class)\s+([Tt]est\w*)/.exec(document.lineAt(at).text) ?? [];
    if (test !== undefined && indent.length < depth) {
      depth = indent.length;
      found.unshift(test);
    }
  }
  return found.length > 0 && depth === 0 ? found.join("::") : undefined;
}

function inside(folder: string, file: string): string {
  const relative = path.relative(folder, file);
  return relative.startsWith("..") || path.isAbsolute(relative) ? file : relative;
}
