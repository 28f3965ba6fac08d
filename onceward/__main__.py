"""The entry of `onceward`.

Kept free of imports: `multiprocessing` imports the main module again in every child.
"""


def main() -> None:
    """Run the command line."""
    from onceward.commands import cli

    cli()


if __name__ == "__main__":
    main()
