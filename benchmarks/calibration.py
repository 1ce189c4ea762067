"""How often the 90 % range of a seen backlog holds its true drain time.

``python -m benchmarks.calibration [CASES]`` makes that many drains of each family (200), lets
the estimator see a window of each, runs each on until its queue is first found empty, and prints
per family how many ranges held the truth, how wide they were beside those of an oracle that knows
the rates, and how many were answered "capacity unknown", which are neither held nor missed. The
truth comes from the small simulator below, which shares no code with the estimator.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from jobplaybook.estimates import BacklogSeen, RateSeen, estimate_seen
from jobplaybook.measures import drain_quantile, drain_sd_seconds, work_cv2

WINDOW = 3_600.0
HORIZON = 12 * 3_600.0
BUCKETS = 60
FAMILIES = ("steady", "bursty", "drifting", "ramp", "unsaturated", "parked")
Rate = Callable[[float], float]


@dataclass
class Truth:
    """What one drain was made of, what happened in it, and how long it took from `WINDOW` on."""

    servers: int
    service: float
    service_cv: float
    failing: Rate
    attempts: int
    backoff: float
    arrival: Rate
    peak: float
    backlog: int
    arrivals: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    retried: list[tuple[float, float]] = field(default_factory=list)
    waiting: int = 0
    parked: list[float] = field(default_factory=list)
    busy_since: float = 0.0
    drained: float = math.inf


def run(case: Truth, rng: random.Random) -> Truth:
    """Run a drain: first come first served, retries parked, until the queue is found empty."""
    spread = math.sqrt(math.log(1 + case.service_cv**2))
    centre = math.log(case.service) - spread**2 / 2
    queue = deque([1] * case.backlog)
    events: list[tuple[float, int, int, bool]] = []
    coming = arriving(case, rng)
    upcoming = next(coming, math.inf)
    now, order, busy, seen = 0.0, 0, 0, False
    while True:
        while busy < case.servers and queue:
            order, busy = order + 1, busy + 1
            takes = rng.lognormvariate(centre, spread)
            heapq.heappush(events, (now + takes, order, queue.popleft(), True))
        if not queue:
            if seen:
                case.drained = now - WINDOW
                return case
            case.busy_since = now
        following = min(events[0][0] if events else math.inf, upcoming)
        if not seen and following >= WINDOW:
            seen, now = True, WINDOW
            case.waiting = len(queue)
            case.parked = sorted(at - WINDOW for at, _, _, runs in events if not runs)
            continue
        if following > HORIZON:
            return case
        now = following
        if upcoming <= following:
            case.arrivals.append(now)
            queue.append(1)
            upcoming = next(coming, math.inf)
            continue
        _, _, attempt, runs = heapq.heappop(events)
        if not runs:
            queue.append(attempt)
            continue
        busy -= 1
        if rng.random() >= case.failing(now) or attempt >= case.attempts:
            case.left.append(now)
        else:
            order += 1
            wakes = now + rng.uniform(0.0, case.backoff * 2**attempt)
            case.retried.append((now, wakes - now))
            heapq.heappush(events, (wakes, order, attempt + 1, False))


def arriving(case: Truth, rng: random.Random) -> Iterator[float]:
    """Give the arrivals of a rate that changes, by thinning those of its peak."""
    at = 0.0
    while at < HORIZON:
        at += rng.expovariate(case.peak)
        if rng.random() * case.peak <= case.arrival(at):
            yield at


def steps(rng: random.Random, values: tuple[float, float], mean_seconds: float) -> Rate:
    """Return a rate that jumps between two values after exponential times."""
    edges, at = [0.0], 0.0
    while at < HORIZON:
        at += rng.expovariate(1 / mean_seconds)
        edges.append(at)
    first = rng.randrange(2)
    return lambda time: values[(first + bisect_left(edges, time)) % 2]


def walk(rng: random.Random, base: float, per_hour: float) -> tuple[Rate, float]:
    """Return a rate that walks by a share of itself per root of an hour, and its peak."""
    width = 30.0
    values = [base]
    while len(values) * width < HORIZON + 2 * width:
        step = rng.gauss(0.0, per_hour * base * math.sqrt(width / 3_600))
        values.append(min(max(values[-1] + step, 0.2 * base), 3 * base))
    return lambda time: values[int(time / width)], max(values)


def make(family: str, seed: int) -> Truth:
    """Return one drain of a family."""
    rng = random.Random(seed)
    servers, service = rng.choice([4, 8, 20]), rng.choice([1.0, 3.0, 5.0])
    share, attempts, backoff = rng.choice([0.0, 0.1, 0.2]), 3, rng.choice([5.0, 30.0, 60.0])
    failing: Rate = lambda _: share  # noqa: E731
    if family == "parked":
        # an upstream that failed nearly every call came back a while ago
        share, attempts, backoff = rng.choice([0.3, 0.4, 0.5]), 8, rng.choice([60.0, 120.0, 300.0])
        back, after = WINDOW - rng.uniform(200, 900), share
        failing = lambda time: 0.95 if time < back else after  # noqa: E731
    capacity = servers / service * (1 - share) / (1 - share**attempts)
    base = capacity * rng.uniform(0.4, 0.85 if family == "parked" else 0.92)
    peak, arrival = base, (lambda _: base)
    if family == "bursty":
        swing = rng.uniform(0.2, 0.8)
        peak = base * (1 + swing)
        arrival = steps(rng, (base * (1 - swing), peak), rng.choice([20.0, 60.0, 180.0]))
    elif family == "drifting":
        arrival, peak = walk(rng, 0.9 * base, rng.uniform(0.1, 0.5))
    elif family == "ramp":
        slope = rng.uniform(-0.4, 0.15) / 3_600
        arrival, peak = (lambda time: max(base * (1 + slope * time), 0.0)), 3 * base
    elif family == "unsaturated":
        begin, high = WINDOW - rng.uniform(30, 400), base + capacity * rng.uniform(1, 6)
        arrival, peak = (lambda time: high if begin <= time < begin + 120 else base), high
    fresh = family in ("unsaturated", "parked")
    backlog = 0 if fresh else int((capacity - base) * WINDOW + capacity * rng.uniform(100, 1_500))
    return run(
        Truth(
            servers=servers,
            service=service,
            service_cv=rng.choice([0.5, 1.0, 1.5]),
            failing=failing,
            attempts=attempts,
            backoff=backoff,
            arrival=arrival,
            peak=peak,
            backlog=backlog,
        ),
        rng,
    )


def counted(times: list[float], since: float) -> RateSeen:
    """Return how many of the times lie in each bucket from ``since`` to the end of the window."""
    buckets = max(min(BUCKETS, int((WINDOW - since) / 15.0)), 1)
    width = (WINDOW - since) / buckets
    counts = [0] * buckets
    for time in times:
        if since <= time < WINDOW:
            counts[min(int((time - since) / width), buckets - 1)] += 1
    return RateSeen(counts=tuple(counts), bucket_seconds=width)


def seen_of(case: Truth) -> BacklogSeen:
    """Return what a snapshot at the end of the window would show."""
    delays = [delay for at, delay in case.retried if case.busy_since <= at < WINDOW]
    return BacklogSeen(
        name=None,
        waiting=case.waiting,
        parked=tuple(case.parked),
        arrivals=counted(case.arrivals, 0.0),
        left=counted(case.left, case.busy_since),
        retried=len(delays),
        retry_delay_seconds=sum(delays) / len(delays) if delays else 0.0,
    )


def oracle_width(case: Truth) -> float | None:
    """Return the width of the 90 % range of one who knows the rates as they are at the end."""
    p, into = case.failing(WINDOW), case.arrival(WINDOW)
    capacity = case.servers / case.service * (1 - p) / (1 - p**case.attempts)
    backlog = case.waiting + len(case.parked)
    if capacity <= into or not backlog:
        return None
    sd = drain_sd_seconds(
        backlog,
        arrival_rate=into,
        completion_rate=capacity,
        job_cv2=work_cv2(failure_rate=p, max_attempts=case.attempts, service_cv=case.service_cv),
    )
    mean = backlog / (capacity - into)
    return drain_quantile(0.95, mean=mean, sd=sd) - drain_quantile(0.05, mean=mean, sd=sd)


def main(cases: int) -> None:
    print("family        drains  unknown   held  too short  too long  never seen  width / oracle")
    every = held_all = 0
    for family in FAMILIES:
        unknown = held = early = late = open_ended = drains = 0
        widths = []
        for seed in range(cases):
            case = make(family, seed)
            if not case.waiting:
                continue  # nothing to estimate
            estimate = estimate_seen(seen_of(case))
            if estimate is None:
                unknown += 1
                continue
            low, high = estimate.seconds.p5 or 0.0, estimate.seconds.p95 or math.inf
            drains += 1
            held += low <= case.drained <= high
            early += case.drained < low
            late += case.drained > high
            open_ended += high == math.inf
            oracle = oracle_width(case)
            if oracle and high < math.inf:
                widths.append((high - low) / oracle)
        every, held_all = every + drains, held_all + held
        share = "  -  " if not drains else f"{held / drains:5.1%}"
        print(
            f"{family:12}  {drains:6}  {unknown:7}  {share}  {early / max(drains, 1):9.1%}"
            f"  {late / max(drains, 1):8.1%}  {open_ended / max(drains, 1):10.1%}"
            f"  {median(widths) if widths else math.nan:14.1f}",
            flush=True,
        )
    print(f"all           {every:6}           {held_all / every:5.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
