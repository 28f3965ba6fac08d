"""Pictures of the documentation, drawn from text: `python -m docs.drawings` writes them anew.

`sequence` draws a road between lanes from a file of steps, `bars` a chart from a table of a page,
so that a figure stands in one place. `frame` has the colours, which follow the reader's own scheme,
and a ground of their own, so that they can be read on any page. A test says when a picture is old.
"""
