"""Measurements of jobplaybook against honest baselines; each module prints its own figures."""
