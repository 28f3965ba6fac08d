"""The entry of `onceward-console`."""


def main() -> None:
    """Run the command line."""
    from consumer.console.commands import cli

    cli()


if __name__ == "__main__":
    main()
