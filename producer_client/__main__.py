"""The entry of `onceward-client`."""


def main() -> None:
    """Run the command line."""
    from producer_client.commands.commands import cli

    cli()


if __name__ == "__main__":
    main()
