// An interpreter that has nothing but pip: all but fixes works, and one click brings what fixes need.
const assert = require("node:assert");
const vscode = require("vscode");
const { FIRST, api, codes, having, note, show, test, until } = require("./harness");

const QUICK_FIX = vscode.CodeActionKind.QuickFix.value;
const INSTALL = "Install LibCST to fix this";

const actions = async (of, range) =>
  vscode.commands.executeCommand("vscode.executeCodeActionProvider", of, range, QUICK_FIX, 10);

test(FIRST, async () => {
  const about = await until("the server", async () => (await api()).about());
  assert.match(about.folder, /bundled[/\\]libs[/\\]gradline$/);
  assert.equal(about.libcst, null);
});

test("without LibCST there are findings, and an offer to install it in the place of fixes", async () => {
  const editor = await show("number.py");
  const [found] = await having(editor.document.uri, "GL101");
  const offered = await until("the offer", async () =>
    (await actions(editor.document.uri, found.range)).find((action) => action.title === INSTALL),
  );
  assert.equal(offered.command.command, "gradline.installLibcst");
});

test("one click installs it where only the extension sees it, and quick fixes work", async () => {
  const before = await (await api()).about();
  const start = Date.now();
  await vscode.commands.executeCommand("gradline.installLibcst");
  const about = await until("LibCST", async () => {
    const now = await (await api()).about();
    return now?.libcst && now;
  }, 300_000);
  note(`LibCST ${about.libcst} for Python ${about.python} in ${((Date.now() - start) / 1000).toFixed(1)} s`);
  assert.notEqual(about.pid, before.pid);
  const editor = await show("number.py");
  const of = editor.document.uri;
  const [found] = await having(of, "GL101");
  const fix = await until("a fix", async () => (await actions(of, found.range)).find((action) => action.isPreferred));
  assert.ok(await vscode.workspace.applyEdit(fix.edit));
  await until("no finding", () => !codes(of).includes("GL101"));
  assert.match(editor.document.getText(), /^loss\.backward\(\)$/m);
});
