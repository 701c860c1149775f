"""The rewriting kit: questions about a project that more than one codemod asks."""
