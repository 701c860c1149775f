-- gbfix for Neovim's built-in client.
--
-- Neovim 0.11 and newer: copy this file to ~/.config/nvim/lsp/gbfix.lua and write
--   vim.lsp.enable("gbfix")
-- in your init.lua.  Older ones: see editors/README.md.
return {
  cmd = { "gbfix", "lsp" },
  filetypes = { "python" },
  root_markers = { "pyproject.toml", "setup.py", "setup.cfg", ".git" },
  init_options = {
    -- "never", "onCommand" (default) or "onSave": when gbfix may run your program.
    run = "onCommand",
  },
}
