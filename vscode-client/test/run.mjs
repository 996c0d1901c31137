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
const only = process.argv[2]; // "inside", "interpreters", "bare" or "outside"; then the names of scenes (see ui.mjs), with commas
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
  // what a program said: output, then the traceback
  const train = path.join(project, "train.py");
  const said = [
    "some output before",
    "Traceback (most recent call last):",
    `  File "${train}", line 35, in <module>`,
    "    main()",
    `  File "${train}", line 27, in main`,
    "    loss.backward()",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
  ];
  fs.writeFileSync(path.join(project, "said.txt"), `${said.join("\n")}\n`);
  return { home, project };
}

/** Tests in the extension host: the ones in this file of suite/. */
async function inside(suite, python, extension = "suite") {
  const { home, project } = workspace(suite);
  const result = path.join(home, "result.txt");
  Object.assign(process.env, { GRADLINE_TEST_RESULT: result, GRADLINE_TEST_SUITE: suite });
  const folder = path.join(import.meta.dirname, "suite");
  // the payload that starts tests is only read with this option
  const options = ["--vscode-option", "enable-smoke-test-driver"];
  const code = await start(tools, { home, vsix, options, machine: python ? { "gradline.interpreter": [python] } : {} });
  let ended;
  const done = new Promise((resolve) => (ended = resolve));
  await code.page.exposeFunction("codeAutomationLog", () => {});
  await code.page.exposeFunction("codeAutomationExit", (status) => ended(status));
  try {
    await code.open(project, [
      ["extensionDevelopmentPath", code.remote(path.join(import.meta.dirname, extension))],
      ["extensionTestsPath", code.remote(path.join(folder, "index.js"))],
    ]);
    const status = await Promise.race([
      done,
      new Promise((resolve) => setTimeout(() => resolve("too slow"), 3 * PATIENCE).unref()),
    ]);
    console.log(fs.existsSync(result) ? fs.readFileSync(result, "utf8") : `no result (${status})`);
    return status === 0;
  } finally {
    await code.page.screenshot({ path: path.join(shots, `inside-${suite}.png`) });
    await code.stop();
  }
}

/** An environment with nothing in it, or nothing but pip. */
function environment(...options) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "gradline-venv-"));
  execFileSync(interpreter, ["-m", "venv", ...options, home]);
  return path.join(home, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
}

/** An interpreter with nothing but pip, on a machine that can reach an index of packages. */
async function bare() {
  return inside("bare", environment());
}

/** Interpreters that a Python extension chooses. */
async function interpreters() {
  const both = [environment("--without-pip"), environment("--without-pip")];
  Object.assign(process.env, { GRADLINE_TEST_PYTHONS: JSON.stringify(both), GRADLINE_TEST_PYTHON: both[0] });
  return inside("interpreters", undefined, "python");
}

async function outside() {
  const torch = spawnSync(interpreter, ["-c", "import torch"]);
  const only = process.argv[3]?.split(",");
  return look({ tools, fresh: workspace, vsix, python: interpreter, hasTorch: torch.status === 0, shots, start, only });
}

const parts = { inside: () => inside("features", interpreter), interpreters, bare, outside };
const passed = [];
for (const [name, part] of Object.entries(parts)) {
  if (only && name !== only) continue;
  const begun = Date.now();
  console.log(`--- ${name}`);
  passed.push(await part());
  console.log(`${passed.at(-1) ? "passed" : "FAILED"} in ${((Date.now() - begun) / 1000).toFixed(0)} s`);
}
process.exit(passed.every(Boolean) ? 0 : 1);
