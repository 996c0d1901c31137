import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

interface Open {
  type: "open";
  file: string;
  line: number;
  cell: string | null;
}

/** A page beside the code whose places, when they are clicked, are opened in the editor. */
class Page {
  private panel: vscode.WebviewPanel | undefined;

  constructor(private readonly kind: string) {}

  show(title: string, html: string): void {
    if (!this.panel) {
      const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
      const options = { enableScripts: true, enableFindWidget: true, localResourceRoots: [], retainContextWhenHidden: true };
      const panel = vscode.window.createWebviewPanel(this.kind, title, place, options);
      panel.onDidDispose(() => (this.panel = undefined));
      panel.webview.onDidReceiveMessage((message: unknown) => {
        if (isOpen(message)) {
          const failed = (error: unknown): void => void vscode.window.showWarningMessage(`gradline: ${error}`);
          open(message, panel.viewColumn).catch(failed);
        }
      });
      this.panel = panel;
    }
    this.panel.title = title;
    this.panel.webview.html = html;
    this.panel.reveal(undefined, true);
  }
}

const report = new Page("gradline.probe");
const explanation = new Page("gradline.why");

/** Shows the page of a probe's report, as the server has made it. */
export function showReport(title: string, page: string): void {
  report.show(`Probe: ${title}`, page);
}

/** Shows Markdown in which places are links made by `placeLink`. */
export async function showExplanation(title: string, markdown: string): Promise<void> {
  const body = await vscode.commands.executeCommand<string>("markdown.api.render", markdown);
  const nonce = randomBytes(16).toString("hex");
  explanation.show(
    title,
    `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'">
<style>
body { max-width: 48rem; padding: 0 1.4rem 2rem; line-height: 1.5; }
pre { padding: .6rem .8rem; overflow-x: auto; background: var(--vscode-textCodeBlock-background); }
pre code { background: none; }
code { font-family: var(--vscode-editor-font-family); color: inherit; }
:not(pre) > code { padding: .1em .3em; border-radius: 3px; background: var(--vscode-textCodeBlock-background); }
a.place { font-family: var(--vscode-editor-font-family); cursor: pointer; }
</style>
</head>
<body>
<main>${body}</main>
<script nonce="${nonce}">
const editor = acquireVsCodeApi();
for (const link of document.querySelectorAll("a.place")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    editor.postMessage({ type: "open", file: link.dataset.file, line: Number(link.dataset.line), cell: link.dataset.cell ?? null });
  });
}
</script>
</body>
</html>`,
  );
}

/** A link to a line (from 1), in a notebook of a cell (from 0), for `showExplanation`. */
export function placeLink(file: string, line: number, cell?: number): string {
  // what means something in HTML, or in the Markdown around it
  const plain = (text: string): string => text.replace(/[^\w/. -]|_/gu, (sign) => `&#${sign.codePointAt(0)};`);
  const shown = plain(vscode.workspace.asRelativePath(file)) + (cell === undefined ? "" : ` cell ${cell + 1}`);
  const inside = cell === undefined ? "" : ` data-cell="${cell}"`;
  return `<a class="place" href="#" data-file="${plain(file)}" data-line="${line}"${inside}>${shown}:${line}</a>`;
}

function isOpen(message: unknown): message is Open {
  const given = message as Partial<Open> | null;
  return given?.type === "open" && typeof given.file === "string" && typeof given.line === "number";
}

async function open({ file, line, cell }: Open, from: vscode.ViewColumn | undefined): Promise<void> {
  const viewColumn = from === vscode.ViewColumn.One ? vscode.ViewColumn.Beside : vscode.ViewColumn.One;
  const uri = vscode.Uri.file(file);
  const at = new vscode.Range(line - 1, 0, line - 1, 0);
  if (cell === null || !file.endsWith(".ipynb")) {
    await vscode.window.showTextDocument(uri, { viewColumn, selection: at });
    return;
  }
  const notebook = await vscode.workspace.openNotebookDocument(uri);
  const number = Number(cell);
  await vscode.window.showNotebookDocument(notebook, { viewColumn, selections: [new vscode.NotebookRange(number, number + 1)] });
}
