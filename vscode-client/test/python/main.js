// What the Python extension exports, as far as gradline asks for it; `choose` is what its user does.
const vscode = require("vscode");

exports.activate = () => {
  let chosen = process.env.GRADLINE_TEST_PYTHON;
  const changed = new vscode.EventEmitter();
  return {
    environments: {
      getActiveEnvironmentPath: () => ({ id: chosen, path: chosen }),
      resolveEnvironment: async ({ path }) => ({ id: path, path, executable: { uri: vscode.Uri.file(path) } }),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
    choose: (path) => {
      chosen = path;
      changed.fire({ path });
    },
  };
};
