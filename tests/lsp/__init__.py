"""The language server, driven as a process."""
