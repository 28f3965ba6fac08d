"""The entry of `onceward-dlq`."""


def main() -> None:
    """Run the command line."""
    from consumer.dlq.commands import cli

    cli()


if __name__ == "__main__":
    main()
