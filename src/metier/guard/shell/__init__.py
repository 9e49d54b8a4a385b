"""Reading shell commands: which programs a line would start, and whether rules allow or forbid them.

`reading` takes a line apart, with two readers that must agree (`grammar` over `scanner`, and `tree`); `wrappers` and
the modules beside it say what a program starts or changes beside itself; `commands` holds the result against rules.
"""
