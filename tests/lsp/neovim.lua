-- Driven by test_clients.py: opens a program, waits for gbfix, takes its first code action.
local out = assert(io.open(vim.env.GBFIX_TEST_OUT, "w"))
local function say(...)
  out:write(table.concat({ ... }, " "), "\n")
  out:flush()
end

local function main()
  local config = dofile(vim.env.GBFIX_TEST_CONFIG)
  config.cmd = { vim.env.GBFIX_TEST_COMMAND, "lsp" }
  config.name = "gbfix"
  config.root_dir = vim.fn.getcwd()
  if vim.lsp.start then
    vim.lsp.start(config)
  else
    vim.lsp.buf_attach_client(0, vim.lsp.start_client(config))
  end
  local function wait(what, condition)
    assert(vim.wait(60000, condition, 20), "waited in vain for " .. what)
  end
  wait("diagnostics", function()
    return #vim.diagnostic.get(0) > 0
  end)
  local found = vim.diagnostic.get(0)[1]
  say("diagnostic", found.code or found.user_data.lsp.code, found.lnum, found.col, found.severity)
  vim.fn.cursor(found.lnum + 1, found.col + 1)
  vim.ui.select = function(items, _, choose)
    local action = items[1].action or items[1][2]
    say("action", action.title)
    choose(items[1], 1)
  end
  local tick = vim.api.nvim_buf_get_changedtick(0)
  vim.lsp.buf.code_action()
  wait("the edit", function()
    return vim.api.nvim_buf_get_changedtick(0) ~= tick
  end)
  vim.cmd("write")
end

local ok, problem = pcall(main)
say(ok and "ok" or ("failed " .. tostring(problem)))
out:close()
vim.cmd("qall!")
