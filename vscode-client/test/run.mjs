// npm run test:vscode: installs gradline.vsix in a real VS Code and tests it from the inside (suite/index.js runs in the
// extension host) and from the outside (ui.mjs looks at the window).  PYTHON names the interpreter for the server,
// VSCODE_TEST the folder for the tools; screenshots are left in its shots/.
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setup } from "./setup.mjs";
import { PATIENCE, start } from "./vscode.mjs";
import { look } from "./ui.mjs";

const root = path.resolve(import.meta.dirname, "../..");
const folder = path.resolve(process.env.VSCODE_TEST ?? path.join(root, ".vscode-test"));
const python = process.env.PYTHON ?? "python3";
const only = process.argv[2]; // "inside" or "outside", and the names of scenes (see ui.mjs), with commas
const tools = setup(folder);
const vsix = path.join(root, "gradline.vsix");
if (!fs.existsSync(vsix)) throw new Error("gradline.vsix is missing: npm run package");
const interpreter = execFileSync(python, ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
const shots = path.join(folder, "shots");
fs.mkdirSync(shots, { recursive: true });

function workspace(name) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), `gradline-${name}-`));
  const project = path.join(home, "project");
  fs.cpSync(path.join(root, "examples/midnight"), project, {
    recursive: true,
    filter: (source) => path.basename(source) !== "__pycache__",
  });
  fs.cpSync(path.join(import.meta.dirname, "project"), project, { recursive: true });
  return { home, project };
}

async function inside() {
  const { home, project } = workspace("inside");
  const result = path.join(home, "result.txt");
  process.env.GRADLINE_TEST_RESULT = result;
  const suite = path.join(import.meta.dirname, "suite");
  // the payload that starts tests is only read with this option
  const options = ["--vscode-option", "enable-smoke-test-driver"];
  const code = await start(tools, { home, vsix, options, machine: { "gradline.interpreter": [interpreter], ...JSON.parse(process.env.GRADLINE_TEST_SETTINGS ?? "{}") } });
  let ended;
  const done = new Promise((resolve) => (ended = resolve));
  await code.page.exposeFunction("codeAutomationLog", () => {});
  await code.page.exposeFunction("codeAutomationExit", (status) => ended(status));
  try {
    await code.open(project, [
      ["extensionDevelopmentPath", code.remote(suite)],
      ["extensionTestsPath", code.remote(path.join(suite, "index.js"))],
    ]);
    const status = await Promise.race([
      done,
      new Promise((resolve) => setTimeout(() => resolve("too slow"), 3 * PATIENCE).unref()),
    ]);
    console.log(fs.existsSync(result) ? fs.readFileSync(result, "utf8") : `no result (${status})`);
    return status === 0;
  } finally {
    await code.page.screenshot({ path: path.join(shots, "inside.png") });
    await code.stop();
  }
}

async function outside() {
  const torch = spawnSync(interpreter, ["-c", "import torch"]);
  const only = process.argv[3]?.split(",");
  return look({ tools, fresh: workspace, vsix, python: interpreter, hasTorch: torch.status === 0, shots, start, only });
}

const passed = [];
if (only !== "outside") passed.push(await inside());
if (only !== "inside") passed.push(await outside());
process.exit(passed.every(Boolean) ? 0 : 1);
