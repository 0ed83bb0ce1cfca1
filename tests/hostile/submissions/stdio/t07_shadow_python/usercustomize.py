import posix

posix._exit(0)
