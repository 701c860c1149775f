"""`gbfix lsp`: a language server that hints, runs on request, and offers validated fixes.

``positions``, ``documents``   texts as a client sees them: units, lines, incremental edits
``summary``, ``index``         which functions are compiled regions, and what they reach
``hints``                      statements that are likely to break, without running anything
``measured``                   reports of runs, kept true while their files are edited
``measuring``, ``engine_process``  the engine in a process of its own: warm, cancellable
``settings``                   what the client may ask for, and what it trusts
``session``                    all of this for one client, without the protocol
``diagnostics``, ``actions``, ``texts``  what the client is shown
``server``, ``transport``      the protocol; standard streams or a port

The server's own process imports neither torch nor a codemod.
"""
