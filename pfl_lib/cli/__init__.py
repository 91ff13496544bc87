"""What each command of `pfl-lib` does, one module a command."""
