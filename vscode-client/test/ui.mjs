// What a person sees and does in the window. Each scene is a file in ui/; all but the last share one window.
import path from "node:path";
import { Window } from "./vscode.mjs";
import { findings } from "./ui/findings.mjs";
import { folders } from "./ui/folders.mjs";
import { notebook } from "./ui/notebook.mjs";
import { places } from "./ui/places.mjs";
import { probe } from "./ui/probe.mjs";
import { refresh } from "./ui/refresh.mjs";
import { restricted } from "./ui/restricted.mjs";
import { targets } from "./ui/targets.mjs";
import { themes } from "./ui/themes.mjs";
import { traceback } from "./ui/traceback.mjs";
import { trail } from "./ui/trail.mjs";
import { walkthrough } from "./ui/walkthrough.mjs";

// the probe ends the extension host, and the folders are another workspace
const SCENES = { findings, refresh, themes, places, trail, walkthrough, notebook, traceback, targets, probe, folders };

/** `fresh(name)` gives a new home and project, `only` names the scenes that are wanted. */
export async function look({ tools, fresh, vsix, python, hasTorch, shots, start, only }) {
  let failed = 0;
  const scene = (window, code, project, home) => ({
    window, code, project, home, python, hasTorch, page: code.page,
    shot: (name, options = {}) => code.page.screenshot({ path: path.join(shots, `${name}.png`), ...options }),
    check: (name, ok, about = "") => {
      if (!ok) failed++;
      console.log(ok ? "ok   " : "FAIL ", name, ok ? "" : about);
    },
  });
  const play = async (name, body, context) => {
    const begun = Date.now();
    try {
      await body(context);
    } catch (error) {
      failed++;
      console.log("FAIL ", `${name}: ${String(error.stack ?? error).slice(0, 1200)}`);
      await context.shot(`error-${name}`);
    }
    console.log(`      ${name}: ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  };

  const names = Object.keys(SCENES).filter((name) => !only || only.includes(name));
  if (names.length > 0) {
    const { home, project } = fresh("outside");
    const machine = { "gradline.interpreter": [python], "gradline.probe.interpreter": python };
    const code = await start(tools, { home, vsix, machine });
    const window = new Window(code.page);
    const context = scene(window, code, project, home);
    try {
      await code.open(project, [["openFile", code.remote(path.join(project, "train.py"))]]);
      await window.ready();
      await code.page.waitForSelector(".view-line", { timeout: 120_000 });
      await window.squiggle();
      for (const name of names) {
        await play(name, SCENES[name], context);
        await window.calm();
      }
    } finally {
      await code.stop();
    }
  }
  if (!only || only.includes("restricted")) {
    const { home, project } = fresh("restricted");
    const code = await start(tools, { home, vsix, machine: { "gradline.interpreter": [python] }, trusted: false });
    const context = scene(new Window(code.page), code, project, home);
    try {
      await play("restricted", restricted, context);
    } finally {
      await code.stop();
    }
  }
  return failed === 0;
}
