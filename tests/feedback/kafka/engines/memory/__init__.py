"""The contract of the port on the engine in memory: the same tests, on another ground.

Each file here has all tests of the file of its name. Not here, since they are about libraries:
`test_connection`, `test_refused`, `test_libraries`.
"""
