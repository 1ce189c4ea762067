"""The commented scenario that ``jobplaybook simulate --example`` prints."""

from __future__ import annotations

EXAMPLE = """\
# A what-if for `jobplaybook simulate`. Durations: "90s", "5m", "4h". Rates: "2/s", "20/min".
# Only workers and one class with a service time are needed; the rest has the value shown, or
# is absent where the line begins with '# '.

workers = 20                  # attempts that can run at a time
horizon = "24h"               # not drained by then counts as never
run_to = "drained"            # or "idle" (no job left anywhere), "horizon"
# concurrency = 10            # a limit on running attempts of all classes
# bucket = "5m"               # width of the time buckets in the answer

[[classes]]
name = "mail"
backlog = 10000               # jobs that wait when it starts ...
backlog_age = "1h"            # ... the oldest of them for so long
# parked = ["5m", "10m"]      # retries parked at the start, and when each is due
priority = 0                  # the highest is claimed first
tenants = 1                   # jobs are dealt to them in turn
# tenant_concurrency = 5      # running attempts of one tenant
# concurrency = 15            # running attempts of this class
# contention = false          # true: an attempt is lost where another wrote the row it had read

[classes.arrivals]            # any of these, or several together
rate = "2/s"                  # Poisson
# trace = ["0s", "1.5s"]      # recorded
# every = "1h"                # a burst by the clock
# burst = 500
# first = "10m"

[classes.service]
law = "exponential"           # lognormal, normal, constant, or empirical with values = ["4s", "7s"]
mean = "5s"
# cv = 1.5                    # of lognormal and normal: standard deviation / mean

[classes.failures]            # shares of attempts
retryable = 0.2
permanent = 0.0               # a dead letter at once
rate_limited = 0.0            # comes back after retry_after
retry_after = "60s"
# service = { mean = "30s" }  # where a failing attempt takes another time

[classes.retries]
max_attempts = 3              # the first included
backoff = "none"              # exponential, full, equal, decorrelated (jitter)
base = "1s"
cap = "1h"
# max_elapsed = "10m"         # since the job was accepted
# budget = { initial = 10, most = 10, per_success = 0.1, per_failure = 1, per_retry = 0, floor = 5 }
#                             # or per_call = 0.1: a tenth of a retry for each job

# [classes.pause]             # the class is not claimed, and comes back with a growing limit
# start = "0s"
# length = "30m"
# ramp = "10m"

# [classes.replay]            # dead letters that come back beside live traffic
# jobs = 500
# rate = "5/s"
# concurrency = 10

# [classes.client]            # a caller that waits so long, and asks again
# timeout = "1s"
# attempts = 2

# [quota]                     # calls that the upstream admits
# rate = "3/s"
# burst = 10
# when_empty = "wait"         # or "reject": a call that burns an attempt ...
# reject = "50ms"             # ... and takes so long

# [outage]
# start = "10m"
# length = "30m"
# effect = "fail"             # or "stall": nothing can begin
# fails_after = "30s"

# [lease]
# length = "60s"
# heartbeat = true            # false: counted from the claim, whoever still works

# [crashes]                   # needs a lease: who else would take over?
# rate = "1/h"                # of each worker, while it works
# restart = "30s"
"""
