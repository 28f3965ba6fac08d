"""HTTP: pages served and JSON posted.

`hosts` is where a server listens; `page_server` serves and `page_clients` holds its clients;
`webhook` posts, `slack` escapes text, `proxy_header` reads a caller's name.
"""
