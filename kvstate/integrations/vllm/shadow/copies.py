"""A job of vLLM's, as the observer of its scheduler knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Copy:
    """A job of vLLM's, from where the scheduler has made it to where every rank has reported it."""

    number: int
    """vLLM's."""
    store: bool
    """Or is it a load?"""
    request: str
    """The request's name."""
    device: list[int]
    """Its device blocks, in the order in which the job lists them; what its machines refused is taken out."""
    host: list[int]
    """Its host slots, likewise; empty where they are not watched."""
    left: int
    """So many ranks have not reported it."""
    part: int = -1
    """The slot of its part."""
    began: float = 0.0
    """When."""
    step: int = 0
    """In which step."""
    epoch: int = 0
    """After how many resets."""
    over: bool = False
    """It touches nothing any more; its report may still be to come."""
    late: bool = False
    """It was given up."""
    gone: bool = False
    """Its request has ended."""

    def __str__(self) -> str:
        return f"job {self.number}, a {'store' if self.store else 'load'} of request {self.request}"
