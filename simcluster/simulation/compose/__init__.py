"""From a scenario to a timed Program: plan, Program, classes and links, and the engine's run."""
