-- Neovim 0.11 or newer against the server: nvim --headless -u NONE -i NONE -n -c "luafile tests/editors/nvim.lua"
-- GRADLINE names the program (default: gradline). Edits a copy of project.py, prints what came, exits with 0 if all is right.
local here = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h")
local folder = vim.fn.tempname()
vim.fn.mkdir(folder, "p")
local file = folder .. "/project.py"
vim.fn.writefile(vim.fn.readfile(here .. "/project.py"), file)

local failed = false
local function check(what, ok, about)
  failed = failed or not ok
  io.stdout:write((ok and "ok    " or "FAIL  ") .. what .. (about and ("  " .. tostring(about)) or "") .. "\n")
end

vim.lsp.config("gradline", { cmd = { vim.env.GRADLINE or "gradline", "server" }, filetypes = { "python" }, root_dir = folder })
vim.lsp.enable("gradline")
vim.cmd.edit(file)
vim.bo.filetype = "python"
local buffer = vim.api.nvim_get_current_buf()
local function client()
  return vim.lsp.get_clients({ bufnr = buffer, name = "gradline" })[1]
end
local function diagnostics()
  return vim.diagnostic.get(buffer)
end
local function wait(what, ready)
  check(what, vim.wait(20000, ready, 20))
end

wait("the server starts", function() return client() ~= nil and client().initialized end)
check("columns are in", client().offset_encoding == "utf-8", client().offset_encoding)
wait("diagnostics", function() return #diagnostics() > 0 end)
for _, found in ipairs(diagnostics()) do
  print(("      %d:%d %s %s"):format(found.lnum + 1, found.col + 1, found.code, found.message))
end
local found = diagnostics()[1]
check("its line", found.lnum == 5, found.lnum + 1)
local function ask(method, params)
  params.textDocument = { uri = vim.uri_from_bufnr(buffer) }
  local answer = client():request_sync(method, params, 5000, buffer)
  return answer and answer.result
end
local hover = ask("textDocument/hover", { position = { line = 5, character = 6 } })
check("hover", hover and hover.contents.value:find("copies the value", 1, true))
check("semantic tokens", #ask("textDocument/semanticTokens/full", {}).data >= 10)
local range = { start = { line = 5, character = 0 }, ["end"] = { line = 5, character = 4 } }
local actions = ask("textDocument/codeAction", { range = range, context = { diagnostics = {} } })
check("code actions", actions and #actions > 0, actions and actions[1].title)
local action = client():request_sync("codeAction/resolve", actions[1], 5000, buffer).result
vim.lsp.util.apply_workspace_edit(action.edit, client().offset_encoding)
wait("the fix takes the finding away", function() return #diagnostics() == 0 end)
vim.cmd.undo()
wait("undo brings it back", function() return #diagnostics() == 1 end)

-- a file that is open behind the one that is edited
local victim = { "import torch", "import switch", "w = torch.ones(2, requires_grad=True)", "(w * 2).sum().backward()" }
vim.fn.writefile({ "import torch", "torch.set_grad_enabled(False)" }, folder .. "/switch.py")
vim.fn.writefile(victim, folder .. "/victim.py")
vim.cmd("edit! " .. folder .. "/victim.py")
vim.bo.filetype = "python"
buffer = vim.api.nvim_get_current_buf()
wait("what an imported file has done", function() return #diagnostics() == 1 end)
vim.cmd("edit! " .. folder .. "/switch.py")
vim.bo.filetype = "python"
vim.api.nvim_buf_set_lines(0, 1, 2, false, { "# on" })
wait("goes with an edit there", function() return #diagnostics() == 0 end)
vim.cmd.undo()
wait("and comes back", function() return #diagnostics() == 1 end)
client():stop()
wait("the server stops", function() return client() == nil end)
vim.cmd(failed and "cquit 1" or "qall!")
