"""Handlers of dead letters: their declaration (`declaring`), and the letter that they are given
(`dead_letter`).
"""
