# Loaded in place of the library, if anything looks here first.
import posix

posix._exit(0)
