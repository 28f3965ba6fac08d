"""The settings: `sections` names them with defaults and limits, `settings` reads and checks the
whole, `toml_file` its file within bounds. `http_section` is the front door's, and `secret_files`
are read again for each login."""
