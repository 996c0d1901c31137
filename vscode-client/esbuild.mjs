// Bundles the client into dist/extension.js.  --watch: again after each change.
import { context } from "esbuild";

const build = await context({
  entryPoints: ["vscode-client/src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  minify: true,
  sourcemap: process.argv.includes("--watch"),
  logLevel: "info",
});
if (process.argv.includes("--watch")) {
  await build.watch();
} else {
  await build.rebuild();
  await build.dispose();
}
