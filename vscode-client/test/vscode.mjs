// Starts VS Code (code-server) on the loopback interface and opens it in a headless Chromium.
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import path from "node:path";

export const PATIENCE = 120_000; // a loaded machine needs a minute to the first squiggle

// A fresh profile that asks nothing, fetches nothing and covers nothing.
const QUIET = {
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.enableExperiments": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.welcomePage.walkthroughs.openOnInstall": false,
  "workbench.colorTheme": "Dark Modern",
  "chat.disableAIFeatures": true,
  "git.enabled": false,
  "files.autoSave": "off",
  "editor.minimap.enabled": false,
  "editor.unusualLineTerminators": "off",
  "editor.hover.delay": 150,
  "editor.stickyScroll.enabled": false,
  "terminal.integrated.gpuAcceleration": "off", // its text is in the page
  "window.restoreWindows": "none",
};

/**
 * A running VS Code. `machine` are the settings with scope machine or machine-overridable: a window in a browser is a
 * remote window, which reads those from its machine's file alone.
 */
export async function start(tools, { home, vsix, settings = {}, machine = {}, trusted = true, options = [] }) {
  const data = path.join(home, "data");
  for (const [kind, given] of [
    ["User", { ...QUIET, "security.workspace.trust.enabled": !trusted, ...settings }],
    ["Machine", machine],
  ]) {
    fs.mkdirSync(path.join(data, kind), { recursive: true });
    fs.writeFileSync(path.join(data, kind, "settings.json"), JSON.stringify(given, null, 2));
  }
  fs.writeFileSync(path.join(home, "config.yaml"), "auth: none\ncert: false\n");
  const env = { ...process.env, XDG_DATA_HOME: path.join(home, "xdg"), XDG_CONFIG_HOME: path.join(home, "config") };
  const base = ["--config", path.join(home, "config.yaml"), "--user-data-dir", data];
  base.push("--extensions-dir", path.join(home, "extensions"));
  await run(tools, [...base, "--install-extension", vsix], env);

  const port = await freePort();
  const log = fs.openSync(path.join(home, "server.log"), "w");
  const args = [...base, "--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry"];
  args.push("--disable-update-check", "--disable-getting-started-override", ...options);
  if (trusted) args.push("--disable-workspace-trust");
  const child = spawn(tools.node, [tools.entry, ...args], { env, stdio: ["ignore", log, log] });
  const url = `http://127.0.0.1:${port}`;
  const end = Date.now() + PATIENCE;
  while (!(await fetch(`${url}/healthz`).then((answer) => answer.ok, () => false))) {
    if (child.exitCode !== null || Date.now() > end) throw new Error(`VS Code did not start, see ${home}/server.log`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const { chromium } = createRequire(tools.driver)("playwright-core");
  const browser = await chromium.launch({ executablePath: tools.chromium, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1400, height: 850 } });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  return {
    page,
    pid: child.pid,
    remote: (file) => `vscode-remote://127.0.0.1:${port}${file}`,
    async open(folder, payload = []) {
      const query = new URLSearchParams({ folder });
      if (payload.length > 0) query.set("payload", JSON.stringify(payload));
      await page.goto(`${url}/?${query}`);
    },
    async openWorkspace(file, payload = []) {
      await page.goto(`${url}/?${new URLSearchParams({ workspace: file, payload: JSON.stringify(payload) })}`);
    },
    async stop() {
      await browser.close();
      const gone = new Promise((resolve) => child.once("exit", resolve));
      if (child.exitCode === null && child.kill("SIGTERM")) await gone;
    },
  };
}

function run(tools, args, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(tools.node, [tools.entry, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
    child.on("exit", (code) => (code === 0 ? resolve(said) : reject(new Error(`exit ${code}\n${said}`))));
  });
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
    server.on("error", reject);
  });
}

/** What a person does in a window. */
export class Window {
  constructor(page) {
    this.page = page;
  }
  async ready() {
    await this.page.waitForSelector(".monaco-workbench .part.statusbar", { timeout: PATIENCE });
  }
  async command(title) {
    await this.page.keyboard.press("F1");
    await this.choose(`>${title}`);
  }
  /** Opens a file by its name; again if it came up as something else (a notebook as JSON, before its editor is there). */
  async file(name, expected = ".view-line") {
    for (let attempt = 0; attempt < 20; attempt++) {
      await this.page.keyboard.press("Control+p");
      await this.choose(name);
      const came = await this.page.waitForSelector(expected, { timeout: 3000 }).catch(() => undefined);
      if (came) return;
      await this.command("View: Revert and Close Editor");
      await this.page.waitForTimeout(500);
    }
    throw new Error(`${name} never opened as ${expected}`);
  }
  /** Waits until `check` holds; returns whether it came to hold. */
  async until(check, patience = 20_000) {
    const end = Date.now() + patience;
    for (;;) {
      if (await check()) return true;
      if (Date.now() > end) return false;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  /** Whether the file of this name is in front. */
  async isFront(name) {
    return (await this.page.locator(".tab.active").filter({ hasText: name }).count()) > 0;
  }
  /** Waits until the file of this name is the one in front. */
  async title(name) {
    await this.page.locator(".tab.active.selected, .tab.active").filter({ hasText: name }).first().waitFor({ timeout: 20_000 });
  }
  /** Goes to a line. */
  async line(number) {
    await this.page.keyboard.press("Control+g");
    const box = this.page.locator(".quick-input-widget input").first();
    await box.waitFor({ state: "visible" });
    await box.fill(`:${number}`);
    await this.page.keyboard.press("Enter");
    await this.until(async () => (await this.at()) === number);
  }
  /** The line that the status bar says the cursor is in. */
  async at() {
    const told = await this.page.locator(".statusbar-item").filter({ hasText: /^Ln \d+/ }).first().innerText().catch(() => "");
    return Number(/^Ln (\d+)/.exec(told.trim())?.[1]);
  }
  async theme(name) {
    await this.page.keyboard.press("Control+k");
    await this.page.keyboard.press("Control+t");
    await this.choose(name);
  }
  /** Types into the list that is open, and takes its first row when that is the one. */
  async choose(name) {
    const box = this.page.locator(".quick-input-widget input").first();
    await box.waitFor({ state: "visible" });
    await box.fill(name);
    const first = this.page.locator(".quick-input-list .monaco-list-row").first();
    if (!(await this.until(async () => (await first.innerText().catch(() => "")).includes(name.replace(/^>/, ""))))) {
      throw new Error(`${name} is not offered first, but ${await first.innerText().catch(() => "nothing")}`);
    }
    await this.page.waitForTimeout(150);
    await this.page.keyboard.press("Enter");
  }
  /** Leaves nothing open that would be in the way of what comes next. */
  async calm() {
    if (this.page.isClosed()) return;
    await this.page.keyboard.press("Escape");
    if ((await this.page.locator(".tab").count()) === 0) return; // then there is no such command
    await this.command("View: Close All Editors").catch(() => {});
    const discard = this.page.locator(".monaco-dialog-box").getByText("Don't Save", { exact: true });
    await discard.click({ timeout: 500 }).catch(() => {}); // a scene that failed may have left edits
  }
  async squiggle(kind = "error") {
    const found = this.page.locator(`.squiggly-${kind}`).first();
    await found.waitFor({ timeout: PATIENCE });
    return found;
  }
  /** The frame of the webview in which `selector` is there. */
  async webview(selector, patience = 30_000) {
    const end = Date.now() + patience;
    for (;;) {
      for (const one of this.page.frames().reverse()) {
        if (one !== this.page.mainFrame() && (await one.locator(selector).count().catch(() => 0)) > 0) return one;
      }
      if (Date.now() > end) throw new Error(`no webview with ${selector}`);
      await this.page.waitForTimeout(200);
    }
  }
  /** A click on a link in text, with the key that makes it one; again if lines have moved under the mouse meanwhile. */
  async follow(locator, came) {
    for (let attempt = 0; attempt < 5; attempt++) {
      const box = await locator.boundingBox();
      if (box) {
        const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
        await this.page.mouse.move(x, y);
        await this.page.keyboard.down("Control");
        await this.page.mouse.move(x + 2, y);
        await this.page.waitForTimeout(500);
        await this.page.mouse.click(x + 2, y);
        await this.page.keyboard.up("Control");
      }
      if (await this.until(came, 4000)) return;
    }
    throw new Error("the link leads nowhere");
  }
  /** The computed style of the boldest span of a line that is shown. */
  async plain(line) {
    const spans = this.page.locator(`.view-lines > .view-line:nth-child(${line}) span span`);
    const styles = await spans.evaluateAll((all) =>
      all.map((one) => ({ color: getComputedStyle(one).color, weight: getComputedStyle(one).fontWeight })),
    );
    return styles.sort((one, other) => other.weight - one.weight)[0];
  }
  /** The computed style of the span number `index`, from 0, whose text is `text`. */
  async style(text, index = 0) {
    const pattern = new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "\\s")}\\s*$`);
    const span = this.page.locator(".view-line span span").filter({ hasText: pattern }).nth(index);
    return span.evaluate((element) => {
      const style = getComputedStyle(element);
      return { color: style.color, weight: style.fontWeight };
    });
  }
}
