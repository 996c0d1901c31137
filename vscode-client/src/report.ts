import * as vscode from "vscode";

let panel: vscode.WebviewPanel | undefined;

interface Open {
  type: "open";
  file: string;
  line: number;
  cell: string | null;
}

/** Shows the page of a report; a click on one of its places opens it. */
export function showReport(title: string, page: string): void {
  if (!panel) {
    panel = vscode.window.createWebviewPanel(
      "gradline.probe",
      "",
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { enableScripts: true, enableFindWidget: true, localResourceRoots: [], retainContextWhenHidden: true },
    );
    panel.onDidDispose(() => (panel = undefined));
    panel.webview.onDidReceiveMessage((message: unknown) => {
      if (isOpen(message)) {
        void open(message).catch((error: unknown) => vscode.window.showWarningMessage(`gradline: ${error}`));
      }
    });
  }
  panel.title = `Probe: ${title}`;
  panel.webview.html = page;
  panel.reveal(undefined, true);
}

function isOpen(message: unknown): message is Open {
  const given = message as Partial<Open> | null;
  return given?.type === "open" && typeof given.file === "string" && typeof given.line === "number";
}

async function open({ file, line, cell }: Open): Promise<void> {
  const beside = panel?.viewColumn === vscode.ViewColumn.One ? vscode.ViewColumn.Beside : vscode.ViewColumn.One;
  const uri = vscode.Uri.file(file);
  const at = new vscode.Range(line - 1, 0, line - 1, 0);
  if (cell === null || !file.endsWith(".ipynb")) {
    await vscode.window.showTextDocument(uri, { viewColumn: beside, selection: at });
    return;
  }
  const notebook = await vscode.workspace.openNotebookDocument(uri);
  const number = Number(cell);
  const selections = [new vscode.NotebookRange(number, number + 1)];
  await vscode.window.showNotebookDocument(notebook, { viewColumn: beside, selections });
  if (number < notebook.cellCount) {
    await vscode.window.showTextDocument(notebook.cellAt(number).document, { viewColumn: beside, selection: at });
  }
}
