"""The one place where the version of the package is written. The spec has a version of its own (`spec/VERSION`)."""

__version__ = "0.1.0"
