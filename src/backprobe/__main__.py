"""The command line as ``python -m backprobe``, for when the command ``backprobe`` is not on the path."""

from backprobe_command import main

if __name__ == "__main__":
    main()
