// Brings a real VS Code that a script can drive into a folder (default .vscode-test/): code-server, which is the same
// workbench and extension host served to a browser, the Node that it needs, and playwright-core. All come through npm;
// Chromium has to be installed (on Debian: apt-get install chromium), CHROMIUM names it if it is elsewhere.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

export const VERSIONS = { node: "24.21.0", "code-server": "4.139.1", "playwright-core": "1.65.1" };

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

function install(folder, name, ...flags) {
  const target = path.join(folder, name);
  const done = path.join(target, `done-${VERSIONS[name]}`);
  if (fs.existsSync(done)) return target;
  console.log(`installing ${name} ${VERSIONS[name]}`);
  fs.mkdirSync(target, { recursive: true });
  fs.writeFileSync(path.join(target, "package.json"), '{"private":true}');
  npm(target, "install", ...flags, `${name}@${VERSIONS[name]}`);
  // no scripts: what they would compile (kerberos, sqlite) is not used here
  if (name === "code-server") {
    npm(path.join(target, "node_modules/code-server/lib/vscode"), "install", "--ignore-scripts", "--omit=dev");
  }
  fs.writeFileSync(done, "");
  return target;
}

function npm(cwd, ...args) {
  execFileSync("npm", [...args, "--no-fund", "--no-audit", "--loglevel=error"], {
    cwd,
    stdio: ["ignore", "ignore", "inherit"],
    shell: process.platform === "win32",
  });
}

/** Paths of what is needed to run VS Code; installs what is missing. */
export function setup(folder) {
  const chromium = process.env.CHROMIUM ?? PLACES.find((place) => fs.existsSync(place));
  if (!chromium) throw new Error("Chromium is needed: install it, or name it in CHROMIUM");
  const node = install(folder, "node");
  const server = install(folder, "code-server", "--ignore-scripts");
  const driver = install(folder, "playwright-core", "--ignore-scripts");
  return {
    chromium,
    node: path.join(node, "node_modules/node/bin/node"),
    entry: path.join(server, "node_modules/code-server/out/node/entry.js"),
    driver: path.join(driver, "package.json"),
  };
}
