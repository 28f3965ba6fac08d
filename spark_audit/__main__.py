"""The entry of `onceward-audit`."""


def main() -> None:
    """Run the command line."""
    from spark_audit.run.command_line import cli

    cli()


if __name__ == "__main__":
    main()
