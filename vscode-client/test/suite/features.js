// What the extension does in a workspace that is trusted, with an interpreter that has all it needs.
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const { FIRST, api, codes, having, note, ours, show, test, until, uri } = require("./harness");

test(FIRST, async () => {
  const about = await until("the server", async () => (await api()).about());
  assert.match(about.folder, /bundled[/\\]libs[/\\]gradline$/);
});

test("the victim has a trail into the file that is at fault, which is not open", async () => {
  const editor = await show("train.py");
  const found = (await having(editor.document.uri, "GL202")).find((item) => item.code.value === "GL202");
  assert.match(editor.document.lineAt(found.range.start.line).text, /loss.backward\(\)/);
  assert.match(found.code.target.toString(), /backward.under.grad.off/);
  const last = found.relatedInformation.at(-1).location;
  assert.match(last.uri.path, /utils\/data_loader\.py$/);
  assert.equal(last.range.start.line, 11);
  await having(uri("utils/data_loader.py"), "GL201");
});

test("columns are right after a character beyond the BMP", async () => {
  const editor = await show("number.py");
  const [found] = await having(editor.document.uri, "GL101");
  assert.match(editor.document.getText(found.range), /loss\.item\(\)|\.item\(\)|backward/);
  assert.equal(found.range.start.line, 7);
});

test("an edit brings findings and takes them away, and undo brings them back", async () => {
  const editor = await show("number.py");
  const of = editor.document.uri;
  await having(of, "GL101");
  const line = editor.document.lineAt(7).range;
  await editor.edit((edit) => edit.replace(line, "loss.backward()"));
  await until("no finding", () => !codes(of).includes("GL101"));
  await vscode.commands.executeCommand("undo");
  await having(of, "GL101");
});

test("the time from an edit to its findings", async () => {
  const editor = await show("number.py");
  const of = editor.document.uri;
  await having(of, "GL101");
  const times = [];
  for (let round = 0; round < 10; round++) {
    const before = ours(of).filter((item) => item.code.value === "GL101")[0].range.start.line;
    const start = performance.now();
    await editor.edit((edit) => edit.insert(new vscode.Position(0, 0), "\n"));
    await until("moved", () => ours(of).some((item) => item.range.start.line === before + 1));
    times.push(performance.now() - start);
  }
  times.sort((one, other) => one - other);
  note(`median ${times[5].toFixed(0)} ms, worst ${times[9].toFixed(0)} ms`);
  await vscode.commands.executeCommand("workbench.action.files.revert");
});

test("a quick fix for the origin mends the program", async () => {
  const loader = await show("utils/data_loader.py");
  const of = loader.document.uri;
  const found = (await having(of, "GL201")).find((item) => item.code.value === "GL201");
  const kind = vscode.CodeActionKind.QuickFix.value;
  const actions = await vscode.commands.executeCommand("vscode.executeCodeActionProvider", of, found.range, kind, 10);
  const fix = actions.find((action) => action.isPreferred);
  assert.ok(fix, `a preferred fix among ${actions.map((action) => action.title)}`);
  note(fix.title);
  assert.ok(await vscode.workspace.applyEdit(fix.edit));
  await until("no origin", () => !codes(of).includes("GL201"));
  await until("no victim", () => !codes(uri("train.py")).includes("GL202"));
  assert.doesNotMatch(loader.document.getText(), /^torch\.set_grad_enabled\(False\)$/m);
  await vscode.commands.executeCommand("workbench.action.files.revert");
  await having(of, "GL201");
});

test("a finding can be ignored where it is", async () => {
  const editor = await show("number.py");
  const of = editor.document.uri;
  const [found] = await having(of, "GL101");
  const kind = vscode.CodeActionKind.QuickFix.value;
  const actions = await vscode.commands.executeCommand("vscode.executeCodeActionProvider", of, found.range, kind, 10);
  const ignore = actions.find((action) => action.title.startsWith("Ignore"));
  assert.ok(await vscode.workspace.applyEdit(ignore.edit));
  await until("silenced", () => !codes(of).includes("GL101"));
  assert.match(editor.document.lineAt(found.range.end.line).text, /# gradline: ignore\[GL101\]$/);
  await vscode.commands.executeCommand("workbench.action.files.revert");
});

test("hover and semantic tokens", async () => {
  const editor = await show("number.py");
  const of = editor.document.uri;
  await having(of, "GL101");
  const column = editor.document.lineAt(7).text.indexOf("item") + 1;
  const position = new vscode.Position(7, column);
  const hovers = await vscode.commands.executeCommand("vscode.executeHoverProvider", of, position);
  const texts = hovers.flatMap((hover) => hover.contents.map((content) => content.value));
  assert.ok(texts.some((text) => text.includes("item")), `hover says ${JSON.stringify(texts)}`);
  const legend = await vscode.commands.executeCommand("vscode.provideDocumentSemanticTokensLegend", of);
  assert.ok(legend.tokenTypes.includes("gradientCut"));
  const tokens = await vscode.commands.executeCommand("vscode.provideDocumentSemanticTokens", of);
  assert.ok(tokens.data.length > 0 && tokens.data.length % 5 === 0);
});

test("a form feed and U+2028 do not move findings", async () => {
  const text = "import torch\nx = '\f\u2028'\nloss = torch.nn.Linear(1, 1)(torch.ones(1, 1)).sum()\nloss.item().backward()\n";
  const document = await vscode.workspace.openTextDocument({ language: "python", content: text });
  const editor = await vscode.window.showTextDocument(document);
  await until("a finding", () => ours(document.uri).some((item) => item.range.start.line === 3));
  await editor.edit((edit) => edit.insert(new vscode.Position(2, 0), "y = 1\n"));
  await until("moved", () => ours(document.uri).some((item) => item.range.start.line === 4));
  await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
});

test("a notebook is one program, and findings are in their cells", async () => {
  const notebook = await vscode.workspace.openNotebookDocument(uri("explore.ipynb"));
  await vscode.window.showNotebookDocument(notebook);
  const cell = notebook.cellAt(2).document;
  const [found] = await having(cell.uri, "GL101");
  assert.equal(found.range.start.line, 2);
  assert.equal(ours(notebook.cellAt(0).document.uri).length, 0);
  // without the cell that makes the model nothing is known of the loss
  const edit = new vscode.WorkspaceEdit();
  edit.set(notebook.uri, [vscode.NotebookEdit.deleteCells(new vscode.NotebookRange(2, 3))]);
  await vscode.workspace.applyEdit(edit);
  await until("cleared", () => ours(cell.uri).length === 0);
  await vscode.commands.executeCommand("workbench.action.closeAllEditors");
});

test("restarting brings the findings back", async () => {
  const editor = await show("train.py");
  await having(editor.document.uri, "GL202");
  await vscode.commands.executeCommand("gradline.restart");
  await having(editor.document.uri, "GL202");
});

test("a killed server comes back by itself", async () => {
  const editor = await show("train.py");
  const { pid } = await until("the server", async () => (await api()).about());
  process.kill(pid, "SIGKILL");
  await until("another process", async () => {
    const about = await (await api()).about().catch(() => undefined);
    return about && about.pid !== pid;
  });
  await having(editor.document.uri, "GL202");
});

test("the trail is walked from the victim to the origin and back", async () => {
  const editor = await show("train.py");
  const found = (await having(editor.document.uri, "GL202")).find((item) => item.code.value === "GL202");
  const trail = [
    { uri: editor.document.uri, range: found.range },
    ...found.relatedInformation.map(({ location }) => location),
  ];
  assert.ok(trail.length > 2);
  const at = (place) => {
    const active = vscode.window.activeTextEditor;
    return active?.document.uri.path === place.uri.path && active.selection.start.line === place.range.start.line;
  };
  editor.selection = new vscode.Selection(found.range.start, found.range.start);
  for (const place of trail.slice(1)) {
    await vscode.commands.executeCommand("gradline.nextStep");
    await until(`at ${place.uri.path}:${place.range.start.line + 1}`, () => at(place));
  }
  await vscode.commands.executeCommand("gradline.nextStep"); // beyond the origin there is nothing
  assert.ok(at(trail.at(-1)));
  for (const place of trail.slice(0, -1).reverse()) {
    await vscode.commands.executeCommand("gradline.previousStep");
    await until(`back at ${place.uri.path}:${place.range.start.line + 1}`, () => at(place));
  }
});

test("the lamp at a finding leads to its trail", async () => {
  const editor = await show("train.py");
  const [found] = (await having(editor.document.uri, "GL202")).filter((item) => item.code.value === "GL202");
  const kind = vscode.CodeActionKind.QuickFix.value;
  const titles = await until("the action", async () => {
    const of = editor.document.uri;
    const actions = await vscode.commands.executeCommand("vscode.executeCodeActionProvider", of, found.range, kind);
    const all = actions.map((action) => action.title);
    return all.includes("Show the trail of GL202") && all;
  });
  assert.notEqual(titles[0], "Show the trail of GL202");
});

test("where a finding comes from its fix is offered, too", async () => {
  const editor = await show("number.py");
  const of = editor.document.uri;
  await editor.edit((edit) => edit.replace(editor.document.lineAt(6).range, "loss = loss.detach()"));
  await editor.edit((edit) => edit.replace(editor.document.lineAt(7).range, "loss.backward()"));
  await having(of, "GL102");
  const kind = vscode.CodeActionKind.QuickFix.value;
  const at = editor.document.lineAt(6).range.end.translate(0, -4);
  const fix = await until("the fix", async () => {
    const range = new vscode.Range(at, at);
    return (await vscode.commands.executeCommand("vscode.executeCodeActionProvider", of, range, kind, 10)).find((one) => one.edit);
  });
  note(fix.title);
  assert.ok(await vscode.workspace.applyEdit(fix.edit));
  await until("no finding", () => !codes(of).includes("GL102"));
  await vscode.commands.executeCommand("workbench.action.files.revert");
});

test("what is asked for in a report of a problem", async () => {
  await vscode.commands.executeCommand("gradline.debugInformation");
  const about = JSON.parse(vscode.window.activeTextEditor.document.getText());
  assert.equal(about.trusted, true);
  assert.match(about.server.folder, /gradline$/);
  assert.deepEqual(about.interpreter.command, [about.server.executable]);
  await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
});

test("no keys of ours mean something else already", async () => {
  const own = vscode.extensions.getExtension("gradline.gradline").packageJSON.contributes.keybindings;
  assert.ok(own.length > 0);
  const defaults = await vscode.workspace.openTextDocument(vscode.Uri.parse("vscode://defaultsettings/keybindings.json"));
  const taken = [...defaults.getText().matchAll(/"key":\s*"([^"]+)"[^}]*?"command":\s*"([^"]+)"/g)];
  assert.ok(taken.length > 500, `${taken.length} default keys`);
  for (const { key } of own) {
    const others = taken.filter(([, used, command]) => used === key && !command.startsWith("gradline."));
    assert.deepEqual(others.map(([, , command]) => command), [], key);
  }
});

test("no two restarts overlap", async () => {
  const before = await until("the server", async () => (await api()).about());
  await Promise.all([1, 2, 3, 4].map(() => vscode.commands.executeCommand("gradline.restart")));
  const after = await until("the server", async () => (await api()).about());
  assert.notEqual(after.pid, before.pid);
  const running = fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const words = fs.readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
        return words.some((word) => word.startsWith(path.resolve(after.folder, "../..")) && word.endsWith("start.py"));
      } catch {
        return false;
      }
    });
  assert.deepEqual(running, [String(after.pid)]);
});

