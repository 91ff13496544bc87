"""How fast this machine trains, beside references timed in the same run: `python -m benchmarks`.

Not part of the package: it runs in a clone, from the clone's top folder.
"""
