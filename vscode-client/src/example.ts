import * as vscode from "vscode";

/** Opens the example of the walkthrough: a copy, so that it can be mended, broken and run. */
export async function openExample(context: vscode.ExtensionContext): Promise<void> {
  const from = vscode.Uri.joinPath(context.extensionUri, "examples", "midnight");
  const folder = vscode.Uri.joinPath(context.globalStorageUri, "midnight");
  await vscode.workspace.fs.copy(from, folder, { overwrite: true });
  const train = vscode.Uri.joinPath(folder, "train.py");
  const text = new TextDecoder().decode(await vscode.workspace.fs.readFile(train));
  const line = text.split("\n").findIndex((one) => one.includes("loss.backward()"));
  const selection = new vscode.Range(line, 0, line, 0);
  // `showTextDocument` would keep the document, and with it its findings, for minutes after it is closed
  const options = { preview: false, viewColumn: vscode.ViewColumn.Beside, selection };
  await vscode.commands.executeCommand("vscode.open", train, options);
}
