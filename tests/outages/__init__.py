"""Outages: a real worker and a real client while one server, link, clock or process fails.

Each test plays one fault into a `Scene` (`scene`): steady requests (`load`) go through a worker, a
fault comes and goes, and the account must be clean: everybody told, nothing ran twice, nobody had
to restart anything, memory and files bounded. `make chaos` plays the same faults longer.
"""
