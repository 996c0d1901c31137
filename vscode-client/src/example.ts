import * as vscode from "vscode";

/** Opens the example of the walkthrough: a copy, so that it can be mended, broken and run. */
export async function openExample(context: vscode.ExtensionContext): Promise<void> {
  const from = vscode.Uri.joinPath(context.extensionUri, "examples", "midnight");
  const folder = vscode.Uri.joinPath(context.globalStorageUri, "midnight");
  await vscode.workspace.fs.copy(from, folder, { overwrite: true });
  const train = await vscode.workspace.openTextDocument(vscode.Uri.joinPath(folder, "train.py"));
  const line = train.getText().split("\n").findIndex((text) => text.includes("loss.backward()"));
  const selection = new vscode.Range(line, 0, line, 0);
  await vscode.window.showTextDocument(train, { preview: false, viewColumn: vscode.ViewColumn.Beside, selection });
}
