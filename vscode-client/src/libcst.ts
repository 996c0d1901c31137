import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { log } from "./log";
import type { Server } from "./server";

const run = promisify(execFile);
const LIBCST = "libcst>=1.5";

/** Installs LibCST, which quick fixes are made with, where only this extension sees it. */
export async function installLibcst(server: Server): Promise<void> {
  const interpreter = server.interpreter;
  const [program, ...before] = interpreter?.command ?? [];
  if (!interpreter || !program) {
    void vscode.window.showWarningMessage(vscode.l10n.t("gradline: the server was not started with an interpreter of its own."));
    return;
  }
  const target = server.packages(interpreter);
  await fs.mkdir(target, { recursive: true });
  const args = [...before, "-m", "pip", "install", "--disable-pip-version-check", "--target", target, "--upgrade", LIBCST];
  try {
    await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: vscode.l10n.t("gradline: installing LibCST") },
      async () => {
        log.info([program, ...args].join(" "));
        const { stdout } = await run(program, args, { timeout: 300_000, windowsHide: true });
        log.info(stdout);
      },
    );
  } catch (error) {
    log.error(String(error));
    const said = (error as { stderr?: string }).stderr?.trim().split("\n").at(-1) ?? String(error);
    const show = vscode.l10n.t("Show Log");
    if ((await vscode.window.showErrorMessage(vscode.l10n.t("gradline: LibCST could not be installed: {0}", said), show)) === show) {
      log.show();
    }
    return;
  }
  await server.restart();
}
