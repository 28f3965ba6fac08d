"""The documentation: four places of Markdown, and the code that builds them (`make docs`).

`tutorials` lead a beginner, `how-to` has a page for each task, `reference` is for looking things
up, `explanation` says why. `generators` writes the tables of the reference from the code,
`meanings` has the sentences that no code knows, `drawings` makes the pictures, `conf` is Sphinx's,
`checks` reads the built pages.
"""
