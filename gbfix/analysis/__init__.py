"""Reasoning over source text that codemods share; it imports neither torch nor user code.

``activity``  what code reads, binds, deletes and changes in place
``liveness``  which names may be read later, which are bound (``binding`` is its forward half)
``scopes``    where names come from, what imports stand for
``exits``     how control leaves statements
``names``     identifiers that are taken, free, telling
``kinds``     what an expression that was not observed would be
``purity``    what evaluating code may do besides giving a value
``build``     new syntax in the file's own format
``tree``      fast walks over LibCST nodes
``torch_names``  tables of torch's functions and methods
"""
