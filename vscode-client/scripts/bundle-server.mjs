// Puts gradline and the pure Python packages that its server imports into bundled/, for the .vsix.
// PYTHON names the interpreter whose pip is used (python3, else python).
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "../..");
const bundled = path.join(root, "bundled");
const libs = path.join(bundled, "libs");

function python(args) {
  const names = process.env.PYTHON ? [process.env.PYTHON] : ["python3", "python"];
  for (const name of names) {
    try {
      return execFileSync(name, args, { stdio: ["ignore", "ignore", "inherit"] });
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  }
  throw new Error(`no Python found (tried ${names.join(", ")}); set PYTHON`);
}

fs.rmSync(bundled, { recursive: true, force: true });
fs.mkdirSync(libs, { recursive: true });
python([
  "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
  // wheels that run on every platform and every Python from 3.10 on
  "--only-binary=:all:", "--implementation", "py", "--abi", "none", "--platform", "any", "--python-version", "3.10",
  "--target", libs, "--requirement", path.join(root, "vscode-client", "requirements.txt"),
]);
for (const name of fs.readdirSync(libs)) {
  if (name === "bin") fs.rmSync(path.join(libs, name), { recursive: true });
}
fs.cpSync(path.join(root, "server"), path.join(libs, "gradline"), {
  recursive: true,
  filter: (source) => path.basename(source) !== "__pycache__",
});
fs.copyFileSync(path.join(root, "vscode-client", "start.py"), path.join(bundled, "start.py"));
const compiled = fs.readdirSync(libs, { recursive: true }).filter((name) => /\.(so|pyd|dylib)$/.test(name));
if (compiled.length > 0) throw new Error(`compiled files cannot be bundled: ${compiled.join(", ")}`);
// what does not start must not be shipped
python(["-I", "-B", "-c", `import sys; sys.path.insert(0, ${JSON.stringify(libs)}); import gradline.lsp.server, gradline.probe.command`]);
