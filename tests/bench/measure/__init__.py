"""Reading the machine: processes (`processes`), what a case cost (`cost`), figures, the host."""
