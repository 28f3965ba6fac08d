"""The entry of `onceward-worker`.

Kept free of imports: `multiprocessing` imports the main module again in every child.
"""


def main() -> None:
    """Run the command line."""
    from consumer.ops.commands import cli

    cli()


if __name__ == "__main__":
    main()
