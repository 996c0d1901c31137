// Tests in the extension host of a real VS Code; run.mjs starts it with a copy of examples/midnight and of project/.
// GRADLINE_TEST_SUITE names the file beside this one, GRADLINE_TEST_ONLY a pattern for names of tests.
require(`./${process.env.GRADLINE_TEST_SUITE ?? "features"}`);
exports.run = require("./harness").run;
