"""What runs in the user's interpreter: the standard library and the user's own torch, nothing else.

`start.py` loads this folder as the package `_gradline_probe`, so nothing is put on `sys.path` and no name of the
user's is shadowed. Python 3.9 and torch 1.13 are the oldest that it must work with.
"""
