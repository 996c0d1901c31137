// The probe, with a launcher from the settings: asked for, shown, run, reported; its traceback explained by a link in the
// terminal; cancelled; closed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const PATIENCE = 180_000;

export async function probe({ page, code, window, shot, check, hasTorch, project, python }) {
  if (!hasTorch) {
    console.log("skip  the probe: the interpreter (PYTHON) has no torch");
    return;
  }
  await window.file("train.py");
  await window.line(27); // in sight, also above a panel
  await window.squiggle();
  const dialog = page.locator(".monaco-dialog-box");
  const settings = path.join(project, ".vscode/settings.json");
  fs.mkdirSync(path.dirname(settings), { recursive: true });
  fs.writeFileSync(settings, JSON.stringify({ "gradline.probe.launcher": [python, "-B"] }));
  let asked = "";
  await window.until(async () => {
    await window.command("gradline: Probe: Run and Watch");
    await dialog.waitFor({ timeout: 60_000 });
    asked = await dialog.innerText();
    if (/-B/.test(asked)) return true; // the settings have been read
    await page.keyboard.press("Escape");
    return false;
  });
  check("the command line is shown before anything runs", /python\S* -B train\.py/.test(asked) && /Run train\.py/.test(asked), asked);
  await shot("probe-asks");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  check("and nothing runs if it is refused", (await page.locator(".notification-toast").filter({ hasText: "probe" }).count()) === 0);

  await window.command("gradline: Probe: Run and Watch");
  await dialog.waitFor({ timeout: 60_000 });
  await dialog.getByText("Run", { exact: true }).click();
  const report = await window.webview("#findings article", PATIENCE);
  const text = await report.locator("body").innerText();
  check("the report names the origin", /data_loader\.py:12/.test(text) && /grad-mode-off/.test(text), text.slice(0, 500));
  check("and has verdicts on what was found before", /confirmed/.test(text));
  await page.waitForTimeout(1500);
  await shot("probe-report");

  const link = page.locator(".terminal-wrapper.active .xterm-rows").getByText(/element 0 of tensors/).first();
  const explained = () => window.webview("main h3", 0).then(() => true, () => false);
  await window.follow(link, explained);
  const why = await window.webview("main h3", 30_000);
  check("the error in the terminal is a link to its explanation", /element 0 of tensors/.test(await why.locator("h3").first().innerText()));
  await page.waitForTimeout(800);
  await shot("traceback");
  await why.locator("a.place").filter({ hasText: "utils/data_loader.py:12" }).first().click();
  await window.title("data_loader.py");
  check("which leads to the line", await window.until(async () => (await window.at()) === 12), String(await window.at()));
  await window.command("View: Close All Editors");

  await window.file("train.py");
  await window.command("View: Hide Panel");
  await window.line(27);
  const verdict = page.locator(".view-line span").filter({ hasText: /probe:\s+✓/ }).first();
  await verdict.waitFor({ timeout: 20_000 });
  check("the verdict stands beside the code", true);
  await shot("probe-verdict");
  await page.keyboard.press("Control+Enter");
  await verdict.waitFor({ state: "detached", timeout: 20_000 }).then(() => check("until the code changes", true), () => check("until the code changes", false));
  await window.command("File: Revert File");
  await window.command("gradline: Show the Last Report");
  const again = await window.webview("#findings article", 30_000);
  await page.waitForTimeout(1000);
  await shot("probe-page");
  await again.locator("#findings a.mono").filter({ hasText: "data_loader.py:12" }).first().click();
  await window.title("data_loader.py");
  check("a place in the report is a link into the code", await window.until(async () => (await window.at()) === 12));
  await window.command("View: Close All Editors");

  fs.rmSync(path.dirname(settings), { recursive: true });

  await window.file("forever.py");
  for (const way of ["Cancel", "kill"]) {
    await window.command("gradline: Probe: Run and Watch");
    await dialog.waitFor({ timeout: 60_000 });
    await dialog.getByText("Run", { exact: true }).click();
    check("a program that never ends runs, with its child", await window.until(() => running(project).length >= 2, 60_000));
    if (way === "Cancel") {
      const toast = page.locator(".notification-toast").filter({ hasText: "gradline probe" }).first();
      await toast.waitFor();
      await shot("probe-running");
      await toast.getByText("Cancel", { exact: true }).click();
    } else {
      process.kill(extensionHost(code.pid), "SIGKILL"); // no code of ours runs any more
    }
    const gone = await window.until(() => running(project).length === 0, 60_000);
    check(way === "Cancel" ? "cancelling ends both" : "they end with the extension host, even if that is killed", gone, running(project).join("\n"));
  }
}

/** The process below another one in which extensions run. */
function extensionHost(pid) {
  const all = execFileSync("ps", ["-eo", "pid,ppid,args"], { encoding: "utf8" });
  const rows = [...all.matchAll(/^\s*(\d+)\s+(\d+) (.*)$/gm)].map(([, own, parent, args]) => ({ own, parent, args }));
  const below = (row) => {
    for (let at = row; at; at = rows.find(({ own }) => own === at.parent)) if (Number(at.parent) === pid) return true;
    return false;
  };
  const found = rows.filter((row) => /type=extensionHost/.test(row.args) && below(row));
  if (found.length !== 1) throw new Error(`${found.length} extension hosts`);
  return Number(found[0].own);
}

/** What runs of forever.py. */
function running() {
  const all = execFileSync("ps", ["-eo", "pid,args"], { encoding: "utf8" }).split("\n");
  return all.filter((line) => /python\S* (forever\.py|\S*\/forever\.py)|child of forever/.test(line));
}
