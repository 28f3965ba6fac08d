"""HTTP: pages served and JSON posted.

`page_server` serves and `page_clients` holds its clients; `webhook` posts, `slack` escapes text.
"""
