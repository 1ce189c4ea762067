"""Token buckets: the upstream's quota, and the budget of retries."""

from __future__ import annotations

from dataclasses import dataclass

from jobplaybook.simulation.scenario import Quota, RetryBudget

# A refill that rounding left a hair below a whole token is one: otherwise it is awaited for ever.
_HAIR = 1e-9


@dataclass(slots=True)
class Bucket:
    """The tokens of a quota; ``awaited`` while somebody is told to come back for one."""

    quota: Quota
    tokens: float
    at: float = 0.0
    awaited: bool = False

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        held = self.tokens + (now - self.at) * self.quota.rate
        self.tokens, self.at = min(held, float(self.quota.burst)), now
        if self.tokens < 1 - _HAIR:
            return False
        self.tokens -= 1
        return True

    def next_at(self) -> float:
        """Return when the next token is there, after `take` found none and the rate is not 0."""
        return self.at + (1 - self.tokens) / self.quota.rate


@dataclass(slots=True)
class Budget:
    """The tokens that the retries of one class need."""

    rules: RetryBudget
    tokens: float

    def add(self, tokens: float) -> None:
        """Put tokens in, or take them out: never below 0 or above the most."""
        self.tokens = min(max(self.tokens + tokens, 0.0), self.rules.most)

    def ended(self, *, done: bool) -> None:
        """Count an attempt that ended."""
        self.add(self.rules.per_success if done else -self.rules.per_failure)

    def allows(self) -> bool:
        """Take what a retry costs, if it is there."""
        if self.tokens <= self.rules.floor or self.tokens < self.rules.per_retry:
            return False
        self.add(-self.rules.per_retry)
        return True
