"""JobBook: the jobs of a connector whose end is not known yet, and what the coming step tells of
jobs.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class News:
    """Jobs that are asked for, and the numbers of those whose end is known."""

    asked: list[Any] = field(default_factory=list)
    known: list[int] = field(default_factory=list)


class JobBook(dict[int, tuple[Any, Any]]):
    """By number: a job, and what it is about. pop() takes out one that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.news = News()

    def __bool__(self) -> bool:
        """Whether a worker has to hear of something, or may have something to tell."""
        return len(self) > 0 or bool(self.news.known)

    def ask(self, job: Any, about: Any) -> None:
        self[job.number] = job, about
        self.news.asked.append(job)

    def tell(self, news: News) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """All that a step tells: these news, which are of an earlier call for it, and the rest."""
        news.asked += self.news.asked
        news.known += self.news.known
        self.news = News()
        return tuple(news.asked), tuple(news.known)

    def pop(self, number: int) -> tuple[Any, Any]:  # type: ignore[override]  # there is no default
        self.news.known.append(number)
        return super().pop(number)

    def say_again(self, news: News) -> None:
        """The step that told this has failed."""
        self.news.asked[:0] = [job for job in news.asked if job.number in self]
        self.news.known[:0] = news.known
