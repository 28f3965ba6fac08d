"""The tutorials are followed: what a page shows is written, typed and compared, from top to bottom.

`page` reads the steps of a page, pure. `terminal` is a shell that types commands. `following` goes
through the steps on real servers. A page keeps to these rules:

- A block of `python` or `toml` whose first line is a comment with a file's name becomes that file.
- A block of `console` has commands behind `$ ` and their output. `…` stands for a part of a line,
  a line of `…` alone for any number of lines. How many spaces there are is not compared.
- Behind `<!-- terminal: NAME -->` a block is typed in a terminal of its own, which runs on: its
  lines have to come, and more may follow.

The servers are shared, so a page's topic and group get a name of the same length for each run.
"""
