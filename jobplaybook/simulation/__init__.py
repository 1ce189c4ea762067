"""What-if: scenarios, two engines that play them, and what many runs say together."""

from __future__ import annotations

from jobplaybook.simulation.example import EXAMPLE
from jobplaybook.simulation.run import ENGINES, Point, Range, Simulation, simulate
from jobplaybook.simulation.scenario import Scenario

__all__ = ["ENGINES", "EXAMPLE", "Point", "Range", "Scenario", "Simulation", "simulate"]
