"""Shell commands as data: the simple commands of a line, and what each of them starts, writes or changes.

`parser` reads a line into a `Script`, with two parsers that must agree: `grammar` over `lexer`, and tree-sitter's.
`effects` gives the effects of a simple command beside those of its program, by the tables of `wrappers`, `launchers`,
`programs`, `git` and `builtins`; `expansion` follows them. This part knows no rules: `tool_rules` matches its data.
"""
