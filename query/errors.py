"""What can go wrong, as errors that say what would be right. Nothing here wraps a library's words."""


class StillroomError(Exception):
    """Any refusal of stillroom's own; its text is meant for the person who ran the command."""


class NotAKnowledgeBase(StillroomError):
    """The path holds no published build."""


class VersionSkew(StillroomError):
    """What was built and what would read it do not agree; both are named."""


class Damaged(StillroomError):
    """A file of a published build is missing or is not what its checksum says."""


class MissingExtra(StillroomError):
    """The command needs a package that is not installed; the message names the extra."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more packages: pip install 'stillroom[{extra}]'")


class BadInput(StillroomError):
    """An argument, a recipe or an input that cannot be used."""


class Unreachable(StillroomError):
    """An object store did not answer, or refused."""


class NotPublished(StillroomError):
    """A build ended without a new version, and why; what was served before still is."""
