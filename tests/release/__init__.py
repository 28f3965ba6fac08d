"""`make release-check`: what would be released is built, looked at, installed and used.

`contents` looks at lists of files and at texts, pure. `__main__` builds both distributions of the
last commit, the wheel from the unpacked source distribution, installs the wheel into an environment
with nothing of this checkout, and follows the first tutorial with its commands on the stack.
"""
