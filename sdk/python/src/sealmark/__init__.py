# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of a Sealmark server.

    from sealmark import Sandbox

    with Sandbox.create(memory_mib=512, timeout_seconds=300) as box:
        print(box.exec("uname -a").stdout)

`Runtime` is the client of a server, `Sandbox` one sandbox; `AsyncRuntime` and `AsyncSandbox`
are the same for asyncio. All errors are `SealmarkError`.
"""

from ._async._files import AsyncFiles
from ._async._images import AsyncImages
from ._async._page import AsyncPage
from ._async._processes import AsyncProcess
from ._async._runtime import AsyncRuntime, AsyncSandboxes
from ._async._sandbox import AsyncSandbox
from ._async._terminal import AsyncTerminal
from ._async._watches import AsyncWatch, AsyncWatches
from ._errors import (
    ArchiveError,
    AuthenticationError,
    BuildError,
    CommandError,
    ConflictError,
    ConnectionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    SealmarkError,
    ServiceUnavailableError,
)
from ._options import CreateOptions, SandboxOptions
from ._records import (
    CommandResult,
    Event,
    Exited,
    FileEntry,
    FileEvent,
    Image,
    LogLine,
    Output,
    Started,
    Truncated,
)
from ._settings import Settings
from ._sync._files import Files
from ._sync._images import Images
from ._sync._page import Page
from ._sync._processes import Process
from ._sync._runtime import Runtime, Sandboxes
from ._sync._sandbox import Sandbox
from ._sync._terminal import Terminal
from ._sync._watches import Watch, Watches
from ._version import VERSION

Sealmark = Runtime
AsyncSealmark = AsyncRuntime
__version__ = VERSION

__all__ = [
    "ArchiveError",
    "AsyncFiles",
    "AsyncImages",
    "AsyncPage",
    "AsyncProcess",
    "AsyncRuntime",
    "AsyncSandbox",
    "AsyncSandboxes",
    "AsyncSealmark",
    "AsyncTerminal",
    "AsyncWatch",
    "AsyncWatches",
    "AuthenticationError",
    "BuildError",
    "CommandError",
    "CommandResult",
    "ConflictError",
    "ConnectionError",
    "CreateOptions",
    "Event",
    "Exited",
    "FileEntry",
    "FileEvent",
    "Files",
    "Image",
    "Images",
    "InvalidRequestError",
    "LogLine",
    "NotFoundError",
    "Output",
    "Page",
    "PermissionDeniedError",
    "Process",
    "RateLimitError",
    "Runtime",
    "Sandbox",
    "SandboxOptions",
    "Sandboxes",
    "SealmarkError",
    "Sealmark",
    "ServiceUnavailableError",
    "Settings",
    "Started",
    "Terminal",
    "Truncated",
    "Watch",
    "Watches",
    "__version__",
]
