"""The settings: `sections` names them with defaults and limits, `settings` reads and checks the
whole, `toml_file` its file within bounds."""
