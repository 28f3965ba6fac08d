"""HTTP: pages served (`page_server`) and JSON posted (`webhook`); `slack` escapes text for it."""
