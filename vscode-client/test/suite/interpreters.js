// The interpreter that is selected in the Python extension (its stand-in, python/) runs the server.
const assert = require("node:assert");
const vscode = require("vscode");
const { FIRST, api, show, test, until } = require("./harness");

const [first, second] = JSON.parse(process.env.GRADLINE_TEST_PYTHONS);

test(FIRST, async () => {
  await show("number.py");
  const about = await until("the server", async () => (await api()).about());
  assert.equal(about.executable, first);
});

test("another selection starts the server anew, the same one does not", async () => {
  const python = vscode.extensions.getExtension("ms-python.python").exports;
  python.choose(second);
  const other = await until("another server", async () => {
    const about = await (await api()).about().catch(() => undefined);
    return about?.executable === second && about;
  });
  python.choose(second);
  await new Promise((resolve) => setTimeout(resolve, 3000));
  assert.equal((await (await api()).about()).pid, other.pid);
});

test("the setting is stronger", async () => {
  const settings = vscode.workspace.getConfiguration("gradline");
  await settings.update("interpreter", [first], vscode.ConfigurationTarget.Workspace);
  await until("the first again", async () => (await (await api()).about().catch(() => undefined))?.executable === first);
});
