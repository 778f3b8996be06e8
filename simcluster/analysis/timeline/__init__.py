"""When every instruction of a class ran, the recording that traces are made of, idle gaps with their causes,
and the breakdown of a step.
"""
