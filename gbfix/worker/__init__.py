"""The only part of gbfix that imports torch: it runs the user's program in child processes.

`protocol` is torch-free and may be imported by the other side (`gbfix.runner`); everything else
here runs inside the fork server or one of its children.
"""
