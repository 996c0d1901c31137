import * as vscode from "vscode";

/** The one output channel, for the client, the server and the trace; its level is set in the Output view. */
export const log = vscode.window.createOutputChannel("gradline", { log: true });
